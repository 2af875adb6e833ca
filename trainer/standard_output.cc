#include "trainer/standard_output.h"

#include <cerrno>
#include <cstdio>

#include "common/file_ops.h"
#include "common/run_contract.h"

namespace muster {

Status print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return {};
  return fail(ErrorCode::kIo, "cannot write to standard output: {}", errno_text(errno));
}

int print_result(std::string_view text) {
  const Status printed = print_out(text);
  if (printed) return contract::kExitDone;
  fmt::print(stderr, "muster-train: {}\n", printed.error().message);
  return contract::kExitNotStored;
}

}  // namespace muster
