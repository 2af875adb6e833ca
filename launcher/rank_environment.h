// From a launcher's variables to the run contract's RANK, WORLD_SIZE and so on. Pure functions of the
// environment; docs/run_contract.md tells users the same.
//
// Which launcher started this process, when the variables of several are there (the innermost wins):
//   1. Slurm, if PMIX_NAMESPACE is slurm.pmix.JOB.STEP: srun started the process, whatever is around it.
//   2. Open MPI (OMPI_COMM_WORLD_*): mpirun within an allocation, whose own daemons srun may have started.
//   3. Slurm (SLURM_PROCID and SLURM_STEP_NUM_TASKS). A batch script has SLURM_PROCID too, but is no step.
//   4. PMIx alone (PMIX_RANK): it does not tell the size, so WORLD_SIZE must be set by the user.
//   5. None, with --standalone: rank 0 of 1.
// Open MPI's NODE_RANK is not used: it counts processes on a node, not nodes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"

namespace muster {

using Environment = std::map<std::string, std::string, std::less<>>;

enum class LauncherKind { kOpenMpi, kSlurm, kPmix, kStandalone };
std::string_view launcher_name(LauncherKind kind);

struct RankPlacement {
  LauncherKind launcher = LauncherKind::kStandalone;
  int rank = 0;
  int world_size = 1;
  // Empty: the launcher does not tell; complete_placement() finds them from all ranks' nodes.
  std::optional<int> local_rank;
  std::optional<int> local_world_size;
  std::optional<int> node_rank;
  bool single_node = false;  // known to be; several nodes or unknown otherwise
  std::string node_key;      // equal on ranks of one node only; empty: the launcher does not tell
  std::string job_key;       // equal on the ranks of one start only; fit for a file name
};

// kInvalidArgument: nothing started this process as a rank, or what did contradicts itself or the RANK or
// WORLD_SIZE that is already set. The latter keeps N singletons from running silently.
Result<RankPlacement> find_placement(const Environment& environment, bool standalone);

// Fills in what the launcher did not tell. node_of_rank: for each rank a text that is equal exactly on one
// node. Nodes count from 0 in the order of their lowest ranks. kMismatch: the launcher counts this node's
// ranks differently.
Status complete_placement(RankPlacement& placement, const std::vector<std::string>& node_of_rank);

// RANK, WORLD_SIZE and, as far as they are known, LOCAL_RANK, LOCAL_WORLD_SIZE and NODE_RANK.
std::vector<std::pair<std::string, std::string>> contract_variables(const RankPlacement& placement);

// Slurm's short form of counts: "2(x3),1" is 2, 2, 2, 1.
Result<std::vector<int>> parse_tasks_per_node(std::string_view text);

}  // namespace muster
