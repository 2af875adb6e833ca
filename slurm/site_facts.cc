#include "slurm/site_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "launcher/units.h"
#include "slurm/gres.h"
#include "slurm/parsable_table.h"
#include "slurm/scontrol_record.h"

namespace muster::slurm {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kNone = std::string_view::npos;

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

// A span of time as Slurm prints it: 00:00:15, 2-00:00:00, and for a partition's grace bare seconds.
std::optional<milliseconds> parse_span(std::string_view text) {
  if (const auto whole = parse_whole<std::int64_t>(text); whole && *whole >= 0 && *whole < 1'000'000'000)
    return seconds(*whole);
  return parse_duration(text);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

void add_unique(std::vector<std::string>& all, std::string one) {
  if (!one.empty() && std::find(all.begin(), all.end(), one) == all.end()) all.push_back(std::move(one));
}

void add_gpus(SiteFacts& facts, std::string_view gres_text, std::uint64_t nodes) {
  const auto all = parse_gres(gres_text);
  if (!all) return;
  std::map<std::string, std::uint64_t> of_this_node;
  for (const Gres& gres : *all) {
    if (gres.name == "gpu" && gres.count > 0) of_this_node[gres.type] += gres.count;
  }
  for (const auto& [type, count] : of_this_node) {
    GpuFacts& gpu = facts.gpus[type];
    gpu.of_a_node_min = gpu.nodes == 0 ? count : std::min(gpu.of_a_node_min, count);
    gpu.of_a_node_max = std::max(gpu.of_a_node_max, count);
    gpu.nodes += nodes;
    gpu.total += nodes * count;
  }
}

class FactReader {
 public:
  FactReader(const SiteOutputs& outputs, SiteFacts& facts) : outputs_(outputs), facts_(facts) {}

  void read_config();
  void read_partitions();
  void read_gpus();
  void read_qos();
  void read_associations();
  void read_mpi();

 private:
  // False, with a line among the unknown things, if the command gave no answer.
  bool answered(const RecordedOutput& output, std::string_view what) {
    if (!output.failure.empty()) unknown(what, output.failure);
    return output.failure.empty();
  }
  void unknown(std::string_view what, std::string_view why) {
    facts_.unknown.push_back(fmt::format("{}, because {}", what, why));
  }
  void read_partitions_of_sinfo();
  void keep_qos(const std::vector<std::string>& allowed);

  const SiteOutputs& outputs_;
  SiteFacts& facts_;
};

void FactReader::read_config() {
  constexpr std::string_view kWhat =
      "the cluster's name, preemption, requeueing and accounting (PreemptType, AuthInfo, JobRequeue …)";
  if (!answered(outputs_.config, kWhat)) return;
  const ScontrolRecord config = parse_scontrol_config(outputs_.config.text);
  if (config.text("ClusterName").empty()) {
    unknown(kWhat, "`scontrol show config` printed no ClusterName");
    return;
  }
  facts_.cluster = config.text("ClusterName");
  facts_.slurm_version = config.text("SLURM_VERSION");
  facts_.preempt_type = config.text("PreemptType");
  facts_.preempt_mode = config.text("PreemptMode");
  constexpr std::string_view kExpire = "cred_expire=";
  constexpr seconds kExpireDefault{120};  // slurm.conf(5)
  facts_.requeue_hold = kExpireDefault;
  facts_.requeue_hold_is_the_default = true;
  for (const std::string& item : split(config.text("AuthInfo"), ',')) {
    if (!item.starts_with(kExpire)) continue;
    const auto hold = parse_whole<std::int32_t>(std::string_view(item).substr(kExpire.size()));
    facts_.requeue_hold_is_the_default = false;
    facts_.requeue_hold.reset();
    if (hold && *hold >= 0) facts_.requeue_hold = seconds(*hold);
  }
  const std::string_view requeue = config.text("JobRequeue");
  if (requeue == "0" || requeue == "1") facts_.job_requeue = requeue == "1";
  const std::string_view storage = config.text("AccountingStorageType");
  if (storage == "accounting_storage/none" || storage.empty()) facts_.accounting = false;
}

void FactReader::read_partitions() {
  const bool known = outputs_.partitions.failure.empty();
  if (!known) {
    if (outputs_.sinfo.failure.empty()) read_partitions_of_sinfo();
    unknown(facts_.partitions.empty() ? "partitions and their limits"
                                      : "the partitions' limits but for their time",
            outputs_.partitions.failure);
    return;
  }
  for (const ScontrolRecord& record : parse_scontrol_records(outputs_.partitions.text)) {
    PartitionFacts partition;
    partition.name = record.text("PartitionName");
    if (partition.name.empty()) continue;
    partition.is_default = record.text("Default") == "YES";
    partition.is_up = record.text("State") == "UP";
    partition.may_be_preempted = record.text("PreemptMode").find("OFF") == kNone;
    partition.tier = parse_whole<std::int64_t>(record.text("PriorityTier"));
    partition.max_time = parse_span(record.text("MaxTime"));
    partition.default_time = parse_span(record.text("DefaultTime"));
    partition.grace = parse_span(record.text("GraceTime"));
    partition.max_nodes = parse_whole<int>(record.text("MaxNodes"));
    facts_.partitions.push_back(std::move(partition));
  }
  if (facts_.partitions.empty())
    unknown("partitions and their limits", "`scontrol show partition -o` showed none");
}

void FactReader::read_partitions_of_sinfo() {
  constexpr std::array<std::string_view, 3> kColumns{"PARTITION", "AVAIL", "TIMELIMIT"};
  const auto table = parse_parsable_table(outputs_.sinfo.text, kColumns);
  if (!table) return;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    std::string name(table->at(row, "PARTITION"));
    const bool is_default = name.ends_with('*');
    if (is_default) name.pop_back();
    const auto is_same = [&](const PartitionFacts& other) { return other.name == name; };
    if (std::any_of(facts_.partitions.begin(), facts_.partitions.end(), is_same)) continue;  // one a GRES
    PartitionFacts partition;
    partition.name = std::move(name);
    partition.is_default = is_default;
    partition.is_up = table->at(row, "AVAIL") == "up";
    partition.max_time = parse_span(table->at(row, "TIMELIMIT"));
    facts_.partitions.push_back(std::move(partition));
  }
}

void FactReader::read_gpus() {
  if (outputs_.nodes.failure.empty()) {
    const auto nodes = parse_scontrol_records(outputs_.nodes.text);
    for (const ScontrolRecord& node : nodes) add_gpus(facts_, node.text("Gres"), 1);
    facts_.gpus_known = !nodes.empty();
    if (nodes.empty()) unknown("GPU types", "`scontrol show node -o` showed no nodes");
    return;
  }
  constexpr std::array<std::string_view, 3> kColumns{"PARTITION", "NODES", "GRES"};
  const auto table = parse_parsable_table(outputs_.sinfo.text, kColumns);
  if (!outputs_.sinfo.failure.empty() || !table) {
    unknown("GPU types", outputs_.nodes.failure);
    return;
  }
  for (std::size_t row = 0; row < table->rows(); ++row) {
    add_gpus(facts_, table->at(row, "GRES"), parse_whole<std::uint64_t>(table->at(row, "NODES")).value_or(0));
  }
  facts_.gpus_known = true;
  unknown("how many GPUs there are exactly (nodes of several partitions are counted several times)",
          outputs_.nodes.failure);
}

void FactReader::read_qos() {
  if (facts_.accounting == false) return;
  constexpr std::string_view kWhat = "QOS, their priorities and grace";
  if (!answered(outputs_.qos, kWhat)) return;
  constexpr std::array<std::string_view, 2> kColumns{"Name", "Priority"};
  const auto table = parse_parsable_table(outputs_.qos.text, kColumns);
  if (!table) {
    unknown(kWhat, "`sacctmgr -P show qos`: " + table.error().message);
    return;
  }
  facts_.accounting = true;
  std::vector<std::string> preempted;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    for (std::string& name : split(table->at(row, "Preempt"), ',')) add_unique(preempted, std::move(name));
  }
  for (std::size_t row = 0; row < table->rows(); ++row) {
    QosFacts qos;
    qos.name = table->at(row, "Name");
    qos.priority = parse_whole<std::int64_t>(table->at(row, "Priority")).value_or(0);
    qos.grace = parse_span(table->at(row, "GraceTime"));
    qos.may_be_preempted = std::find(preempted.begin(), preempted.end(), qos.name) != preempted.end();
    if (!qos.name.empty()) facts_.qos.push_back(std::move(qos));
  }
}

void FactReader::read_associations() {
  if (facts_.accounting == false) return;
  const std::string what = fmt::format("which accounts and QOS {} may use", facts_.user);
  if (!answered(outputs_.associations, what)) return;
  constexpr std::array<std::string_view, 3> kColumns{"Account", "User", "QOS"};
  const auto table = parse_parsable_table(outputs_.associations.text, kColumns);
  if (!table) {
    unknown(what, "`sacctmgr -P show assoc`: " + table.error().message);
    return;
  }
  std::vector<std::string> allowed;
  std::vector<std::string> defaults;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const std::string_view cluster = table->at(row, "Cluster");
    if (!cluster.empty() && !facts_.cluster.empty() && cluster != facts_.cluster) continue;
    add_unique(facts_.accounts, std::string(table->at(row, "Account")));
    for (std::string& name : split(table->at(row, "QOS"), ',')) add_unique(allowed, std::move(name));
    add_unique(defaults, std::string(table->at(row, "Def QOS")));
  }
  if (facts_.accounts.empty()) {
    unknown(what, fmt::format("the accounting knows no association of {} here", facts_.user));
    return;
  }
  if (defaults.size() == 1) facts_.default_qos = defaults.front();
  keep_qos(allowed);
}

void FactReader::keep_qos(const std::vector<std::string>& allowed) {
  if (allowed.empty()) return;
  std::erase_if(facts_.qos, [&](const QosFacts& qos) {
    return std::find(allowed.begin(), allowed.end(), qos.name) == allowed.end();
  });
}

void FactReader::read_mpi() {
  constexpr std::string_view kWhat = "how MPI programs are started (srun's MPI plugins)";
  if (!answered(outputs_.mpi, kWhat)) return;
  // "MPI plugin types are..." or "srun: MPI types are...", then one a line; on either stream.
  bool listed = false;
  for (std::string line : split(outputs_.mpi.text, '\n')) {
    constexpr std::string_view kPrefix = "srun: ";
    if (line.starts_with(kPrefix)) line.erase(0, kPrefix.size());
    line.erase(0, line.find_first_not_of(" \t"));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.ends_with("types are...")) {
      listed = true;
    } else if (listed && line.find_first_of(" :") == kNone) {
      add_unique(facts_.mpi_types, line);
    }
  }
  if (facts_.mpi_types.empty()) unknown(kWhat, "`srun --mpi=list` listed none");
}

}  // namespace

SiteFacts read_site_facts(const SiteOutputs& outputs) {
  SiteFacts facts;
  facts.user = outputs.user;
  FactReader reader(outputs, facts);
  reader.read_config();
  reader.read_partitions();
  reader.read_gpus();
  reader.read_qos();
  reader.read_associations();
  reader.read_mpi();
  return facts;
}

// Normal is what a job gets that says nothing; low and high are what lies alone below and above it.
std::optional<PriorityGuess> guess_priorities(std::vector<ClassCandidate> candidates) {
  std::sort(candidates.begin(), candidates.end(),
            [](const ClassCandidate& a, const ClassCandidate& b) { return a.priority < b.priority; });
  const auto named = [&](std::string_view name) {
    const auto match = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const ClassCandidate& candidate) { return candidate.name == name; });
    return match == candidates.end() ? nullptr : &*match;
  };
  const ClassCandidate* low = named("low");
  const ClassCandidate* normal = named("normal");
  const ClassCandidate* high = named("high");
  if (low != nullptr && normal != nullptr && high != nullptr && low->priority < normal->priority &&
      normal->priority < high->priority) {
    return PriorityGuess{"low", "normal", "high"};
  }
  const auto same = [](const ClassCandidate& a, const ClassCandidate& b) { return a.priority == b.priority; };
  if (std::adjacent_find(candidates.begin(), candidates.end(), same) != candidates.end()) return {};
  const auto is_default = [](const ClassCandidate& candidate) { return candidate.is_default; };
  const auto at = std::find_if(candidates.begin(), candidates.end(), is_default);
  if (candidates.size() == 3 && (at == candidates.end() || at == candidates.begin() + 1))
    return PriorityGuess{candidates[0].name, candidates[1].name, candidates[2].name};
  if (candidates.size() == 2 && at != candidates.end()) {
    const bool default_is_lower = at == candidates.begin();
    return default_is_lower ? PriorityGuess{"", candidates[0].name, candidates[1].name}
                            : PriorityGuess{candidates[0].name, candidates[1].name, ""};
  }
  return {};
}

}  // namespace muster::slurm
