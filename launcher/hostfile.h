// Hosts of a bare-metal run: Open MPI's host file, and which host takes how many ranks. Pure, but for
// load_hostfile.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster {

struct Host {
  std::string name;
  int slots = 1;  // ranks it may hold
  bool operator==(const Host&) const = default;
};

// Lines of `name [slots=N] [max_slots=N]`, comments from '#'. As in Open MPI, a name that comes again without
// slots adds one slot, and a second slots= for a name is an error. A host that is named once without slots
// has one slot: the number of its cores, which Open MPI would take, cannot be known from here.
// kInvalidArgument with one line for each error, `file:line:column: what was found; allowed: …`.
Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& shown_file);

Result<std::vector<Host>> load_hostfile(const std::filesystem::path& path);

// Fills the hosts in their order with whole workers: the hosts used, each with the ranks it gets as its
// `slots`. kUnavailable if they hold fewer than `workers`; then the message says how many they hold.
Result<std::vector<Host>> place_workers(const std::vector<Host>& hosts, int workers, int ranks_per_worker);

}  // namespace muster
