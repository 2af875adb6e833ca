#include "launcher/rank_environment.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "common/run_contract.h"

namespace muster {
namespace {

constexpr std::size_t kNodesMax = 1 << 20;

const std::string* find(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : &found->second;
}

std::string value_or(const Environment& environment, std::string_view name, std::string_view fallback) {
  const std::string* value = find(environment, name);
  return value != nullptr ? *value : std::string(fallback);
}

std::optional<int> parse_count(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

Result<int> count_of(const Environment& environment, std::string_view name) {
  const std::string* text = find(environment, name);
  if (text == nullptr) return fail(ErrorCode::kInvalidArgument, "{} is not set", name);
  const auto value = parse_count(*text);
  if (!value) return fail(ErrorCode::kInvalidArgument, "{}='{}' is not a whole number ≥ 0", name, *text);
  return *value;
}

// A launcher's index must be below its count.
Status check_index(std::string_view index_name, int index, std::string_view count_name, int count) {
  if (index < count) return {};
  return fail(ErrorCode::kInvalidArgument, "{}={} is not below {}={}: these variables are not of one launch",
              index_name, index, count_name, count);
}

std::string file_name_of(std::string_view text) {
  std::string name(text);
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.'; }, '_');
  return name;
}

Result<RankPlacement> from_open_mpi(const Environment& environment) {
  RankPlacement placement;
  placement.launcher = LauncherKind::kOpenMpi;
  MUSTER_ASSIGN(placement.rank, count_of(environment, "OMPI_COMM_WORLD_RANK"));
  MUSTER_ASSIGN(placement.world_size, count_of(environment, "OMPI_COMM_WORLD_SIZE"));
  MUSTER_ASSIGN(placement.local_rank, count_of(environment, "OMPI_COMM_WORLD_LOCAL_RANK"));
  MUSTER_ASSIGN(placement.local_world_size, count_of(environment, "OMPI_COMM_WORLD_LOCAL_SIZE"));
  MUSTER_TRY(
      check_index("OMPI_COMM_WORLD_RANK", placement.rank, "OMPI_COMM_WORLD_SIZE", placement.world_size));
  MUSTER_TRY(check_index("OMPI_COMM_WORLD_LOCAL_RANK", *placement.local_rank, "OMPI_COMM_WORLD_LOCAL_SIZE",
                         *placement.local_world_size));
  placement.single_node = placement.local_world_size == placement.world_size;
  if (placement.single_node) placement.node_rank = 0;
  // Each node has one daemon; its name is what stands before the ';'. Later versions do not tell it.
  const std::string daemon = value_or(environment, "OMPI_MCA_orte_local_daemon_uri", "");
  placement.node_key = daemon.substr(0, daemon.find(';'));
  // The job id repeats itself sooner or later; the transport key is random per mpirun.
  const std::string job =
      value_or(environment, "OMPI_MCA_ess_base_jobid", value_or(environment, "PMIX_NAMESPACE", "job"));
  placement.job_key =
      file_name_of("ompi-" + job + "-" + value_or(environment, "OMPI_MCA_orte_precondition_transports", ""));
  return placement;
}

Result<RankPlacement> from_slurm(const Environment& environment) {
  RankPlacement placement;
  placement.launcher = LauncherKind::kSlurm;
  MUSTER_ASSIGN(placement.rank, count_of(environment, "SLURM_PROCID"));
  MUSTER_ASSIGN(placement.world_size, count_of(environment, "SLURM_STEP_NUM_TASKS"));
  MUSTER_ASSIGN(placement.local_rank, count_of(environment, "SLURM_LOCALID"));
  MUSTER_ASSIGN(placement.node_rank, count_of(environment, "SLURM_NODEID"));
  MUSTER_TRY(check_index("SLURM_PROCID", placement.rank, "SLURM_STEP_NUM_TASKS", placement.world_size));
  // The step's own variable: SLURM_TASKS_PER_NODE may still be the whole allocation's.
  const char* counts_name = find(environment, "SLURM_STEP_TASKS_PER_NODE") != nullptr
                                ? "SLURM_STEP_TASKS_PER_NODE"
                                : "SLURM_TASKS_PER_NODE";
  const std::string counts_text = value_or(environment, counts_name, "");
  const auto counts = parse_tasks_per_node(counts_text);
  if (!counts) return fail(ErrorCode::kInvalidArgument, "{}: {}", counts_name, counts.error().message);
  const auto total = std::accumulate(counts->begin(), counts->end(), 0LL);
  if (total != placement.world_size) {
    return fail(ErrorCode::kInvalidArgument, "{}='{}' adds up to {} tasks, but SLURM_STEP_NUM_TASKS={}",
                counts_name, counts_text, total, placement.world_size);
  }
  MUSTER_TRY(check_index("SLURM_NODEID", *placement.node_rank, std::string("nodes in ") + counts_name,
                         static_cast<int>(counts->size())));
  placement.local_world_size = (*counts)[static_cast<std::size_t>(*placement.node_rank)];
  MUSTER_TRY(check_index("SLURM_LOCALID", *placement.local_rank,
                         std::string("this node's count in ") + counts_name, *placement.local_world_size));
  placement.single_node = counts->size() == 1;
  placement.node_key = fmt::format("slurm node {}", *placement.node_rank);
  placement.job_key = file_name_of(
      fmt::format("slurm-{}-{}.{}-{}", value_or(environment, "SLURM_CLUSTER_NAME", "cluster"),
                  value_or(environment, "SLURM_JOB_ID", "job"),
                  value_or(environment, "SLURM_STEP_ID", value_or(environment, "SLURM_STEPID", "step")),
                  value_or(environment, "SLURM_RESTART_COUNT", "0")));
  return placement;
}

Result<RankPlacement> from_pmix(const Environment& environment) {
  RankPlacement placement;
  placement.launcher = LauncherKind::kPmix;
  MUSTER_ASSIGN(placement.rank, count_of(environment, "PMIX_RANK"));
  if (find(environment, contract::kWorldSize) == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "PMIx started this process (PMIX_RANK={}), but its environment does not tell how many ranks "
                "there are: set WORLD_SIZE to the number of processes",
                placement.rank);
  }
  MUSTER_ASSIGN(placement.world_size, count_of(environment, contract::kWorldSize));
  MUSTER_TRY(check_index("PMIX_RANK", placement.rank, contract::kWorldSize, placement.world_size));
  placement.job_key = file_name_of("pmix-" + value_or(environment, "PMIX_NAMESPACE", "job"));
  return placement;
}

RankPlacement standalone_placement() {
  RankPlacement placement;
  placement.local_rank = 0;
  placement.local_world_size = 1;
  placement.node_rank = 0;
  placement.single_node = true;
  placement.job_key = "standalone";
  return placement;
}

bool is_slurm_step(const Environment& environment) {
  return find(environment, "SLURM_PROCID") != nullptr && find(environment, "SLURM_STEP_NUM_TASKS") != nullptr;
}

Result<RankPlacement> find_launcher(const Environment& environment, bool standalone) {
  const bool srun_by_pmix = value_or(environment, "PMIX_NAMESPACE", "").starts_with("slurm.pmix.");
  if (srun_by_pmix && is_slurm_step(environment)) return from_slurm(environment);
  if (find(environment, "OMPI_COMM_WORLD_SIZE") != nullptr) return from_open_mpi(environment);
  if (is_slurm_step(environment)) return from_slurm(environment);
  if (find(environment, "PMIX_RANK") != nullptr) return from_pmix(environment);
  if (standalone) return standalone_placement();
  if (find(environment, "SLURM_JOB_ID") != nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "this is a Slurm job, but no step started by srun: start it with `srun muster exec -- …` (or "
                "mpirun), or give --standalone for one process that is rank 0 of 1");
  }
  return fail(ErrorCode::kInvalidArgument,
              "nothing started this process as a rank: there are no variables of Open MPI "
              "(OMPI_COMM_WORLD_RANK), Slurm (SLURM_PROCID and SLURM_STEP_NUM_TASKS) or PMIx (PMIX_RANK). "
              "Start it with mpirun or srun, or give --standalone for one process that is rank 0 of 1");
}

// What somebody promised this process before must be what its launcher says.
Status check_promise(const Environment& environment, const char* name, int actual, LauncherKind launcher) {
  const std::string* promised = find(environment, name);
  if (promised == nullptr || parse_count(*promised) == actual) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{}={} is set, but {} says {}: refusing to run as something else than was asked for. Start all "
              "ranks with one mpirun or srun, or unset {}",
              name, *promised, launcher_name(launcher), actual, name);
}

}  // namespace

std::string_view launcher_name(LauncherKind kind) {
  switch (kind) {
    case LauncherKind::kOpenMpi:
      return "Open MPI";
    case LauncherKind::kSlurm:
      return "Slurm";
    case LauncherKind::kPmix:
      return "PMIx";
    case LauncherKind::kStandalone:
      return "--standalone";
  }
  return "";
}

Result<RankPlacement> find_placement(const Environment& environment, bool standalone) {
  MUSTER_ASSIGN(RankPlacement placement, find_launcher(environment, standalone));
  if (standalone && placement.world_size != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "--standalone is given, but {} started {} processes: each would run alone as rank 0",
                launcher_name(placement.launcher), placement.world_size);
  }
  MUSTER_TRY(check_promise(environment, contract::kWorldSize, placement.world_size, placement.launcher));
  MUSTER_TRY(check_promise(environment, contract::kRank, placement.rank, placement.launcher));
  return placement;
}

Status complete_placement(RankPlacement& placement, const std::vector<std::string>& node_of_rank) {
  const auto rank = static_cast<std::size_t>(placement.rank);
  if (node_of_rank.size() != static_cast<std::size_t>(placement.world_size)) {
    return fail(ErrorCode::kInternal, "{} nodes for {} ranks", node_of_rank.size(), placement.world_size);
  }
  const std::string& own = node_of_rank[rank];
  const auto own_rank = node_of_rank.begin() + placement.rank;
  const auto local_rank = static_cast<int>(std::count(node_of_rank.begin(), own_rank, own));
  const auto local_world_size = static_cast<int>(std::count(node_of_rank.begin(), node_of_rank.end(), own));
  const auto first_on_node = std::find(node_of_rank.begin(), node_of_rank.end(), own);
  const std::set<std::string> nodes_before(node_of_rank.begin(), first_on_node);
  if (placement.local_world_size.value_or(local_world_size) != local_world_size) {
    return fail(ErrorCode::kMismatch,
                "{} says that {} ranks run on this node, but {} ranks call it by the name '{}'",
                launcher_name(placement.launcher), *placement.local_world_size, local_world_size, own);
  }
  placement.local_world_size = local_world_size;
  if (!placement.local_rank) placement.local_rank = local_rank;
  if (!placement.node_rank) placement.node_rank = static_cast<int>(nodes_before.size());
  return {};
}

std::vector<std::pair<std::string, std::string>> contract_variables(const RankPlacement& placement) {
  std::vector<std::pair<std::string, std::string>> variables{
      {contract::kRank, std::to_string(placement.rank)},
      {contract::kWorldSize, std::to_string(placement.world_size)}};
  const auto add = [&](const char* name, const std::optional<int>& value) {
    if (value) variables.emplace_back(name, std::to_string(*value));
  };
  add(contract::kLocalRank, placement.local_rank);
  add(contract::kLocalWorldSize, placement.local_world_size);
  add(contract::kNodeRank, placement.node_rank);
  return variables;
}

Result<std::vector<int>> parse_tasks_per_node(std::string_view text) {
  std::vector<int> counts;
  const auto malformed = [&] {
    return fail(ErrorCode::kInvalidArgument, "'{}' is not a list of counts like 2(x3),1", text);
  };
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    std::optional<int> repeat = 1;
    if (const std::size_t open = item.find("(x"); open != std::string_view::npos) {
      if (!item.ends_with(')')) return malformed();
      repeat = parse_count(item.substr(open + 2, item.size() - open - 3));
      item = item.substr(0, open);
    }
    const auto count = parse_count(item);
    if (!count || !repeat || *repeat == 0) return malformed();
    if (counts.size() + static_cast<std::size_t>(*repeat) > kNodesMax) return malformed();
    counts.insert(counts.end(), static_cast<std::size_t>(*repeat), *count);
    if (comma == std::string_view::npos) return counts;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace muster
