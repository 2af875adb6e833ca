// muster guard CONTROL_FD SCRATCH -- COMMAND…: what `muster run` starts mpirun with (launcher/guard.h). Not
// for people.
#include <charconv>
#include <cstdio>

#include "common/run_contract.h"
#include "launcher/commands/commands.h"
#include "launcher/guard.h"

namespace muster::commands {

int guard(const Arguments& arguments) {
  int control_fd = -1;
  if (arguments.size() >= 4 && arguments[2] == "--") {
    std::from_chars(arguments[0].data(), arguments[0].data() + arguments[0].size(), control_fd);
  }
  if (control_fd < 0) {
    std::fputs("muster: guard is started by `muster run` only\n", stderr);
    return contract::kMusterUsage;
  }
  return guard_main(control_fd, arguments[1], {arguments.begin() + 3, arguments.end()});
}

}  // namespace muster::commands
