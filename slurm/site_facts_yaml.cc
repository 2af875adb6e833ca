// The site.yaml that says what is known about a cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "launcher/site_profile.h"
#include "launcher/units.h"
#include "slurm/site_facts.h"

namespace muster::slurm {

namespace {

using std::chrono::milliseconds;

// A name as YAML reads it back.
std::string yaml_name(std::string_view name) {
  const auto is_inner = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/';
  };
  const bool is_plain = !name.empty() && std::isalpha(static_cast<unsigned char>(name.front())) != 0 &&
                        std::all_of(name.begin(), name.end(), is_inner);
  if (is_plain && name != "null" && name != "Null" && name != "NULL") return std::string(name);
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

// On one line, and not longer than a comment can bear.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kNamesMax = 20;
  if (names.size() <= kNamesMax) return fmt::format("{}", fmt::join(names, ", "));
  const std::vector<std::string> first(names.begin(), names.begin() + kNamesMax);
  return fmt::format("{}, and {} more", fmt::join(first, ", "), names.size() - kNamesMax);
}

std::string as_comment(std::string_view block) {
  std::string text;
  while (!block.empty()) {
    const std::size_t end = std::min(block.find('\n'), block.size());
    text += fmt::format("# {}\n", block.substr(0, end));
    block.remove_prefix(std::min(end + 1, block.size()));
  }
  return text;
}

// Nothing if one of them has no such limit.
template <class T>
std::optional<T> largest(const std::vector<const PartitionFacts*>& partitions,
                         std::optional<T> PartitionFacts::*limit) {
  if (partitions.empty()) return {};
  T most{};
  for (const PartitionFacts* partition : partitions) {
    if (!(partition->*limit)) return {};
    most = std::max(most, *(partition->*limit));
  }
  return most;
}

class SiteText {
 public:
  explicit SiteText(const SiteFacts& facts) : facts_(facts) {}
  std::string write();

 private:
  void comment(std::string_view text) { text_ += fmt::format("# {}\n", text); }
  void gap() { text_ += '\n'; }
  // A top-level key with all that belongs to it. What the profile's own reader refuses (a QOS with a space in
  // its name) becomes a comment.
  void block(const std::string& text) { text_ += parse_site_profile({{"", text}}) ? text : as_comment(text); }

  void priorities();
  void priorities_by(const char* key, const char* what, const std::vector<ClassCandidate>& candidates);
  void gpus();
  void process_start();
  void limits();
  void preemption();
  void requeueing();
  std::vector<const PartitionFacts*> usual_partitions() const;
  bool by_partition() const;

  const SiteFacts& facts_;
  std::string text_;
};

bool SiteText::by_partition() const {
  return facts_.preempt_type == "preempt/partition_prio" || facts_.qos.empty();
}

void SiteText::priorities_by(const char* key, const char* what,
                             const std::vector<ClassCandidate>& candidates) {
  std::vector<std::string> shown;
  for (const ClassCandidate& candidate : candidates) {
    shown.push_back(fmt::format("{} {}{}", candidate.name, candidate.priority,
                                candidate.is_default ? " (the default)" : ""));
  }
  comment(fmt::format("{}: {}.", what, listed(shown)));
  const auto guess = guess_priorities(candidates);
  if (!guess) {
    comment("Which of them a task's priority means is for you to say:");
    comment("priority:");
    for (const char* name : {"low", "normal", "high"}) comment(fmt::format("  {}: {{{}: NAME}}", name, key));
    return;
  }
  std::string text = "priority:\n";
  for (const auto& [name, value] :
       {std::pair{"low", guess->low}, std::pair{"normal", guess->normal}, std::pair{"high", guess->high}}) {
    text += value.empty() ? fmt::format("  # {}: {{{}: NAME}}  # none lies there\n", name, key)
                          : fmt::format("  {}: {{{}: {}}}\n", name, key, yaml_name(value));
  }
  block(text);
}

void SiteText::priorities() {
  std::vector<ClassCandidate> candidates;
  if (by_partition()) {
    for (const PartitionFacts& partition : facts_.partitions) {
      if (partition.is_up && partition.tier)
        candidates.push_back({partition.name, *partition.tier, partition.is_default});
    }
  } else {
    for (const QosFacts& qos : facts_.qos)
      candidates.push_back({qos.name, qos.priority, qos.name == facts_.default_qos});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const ClassCandidate& a, const ClassCandidate& b) { return a.priority < b.priority; });
  if (candidates.empty()) {
    comment("Neither QOS nor partitions are known that a task's priority could mean:");
    comment("priority:");
    comment("  high: {qos: NAME, partition: NAME, account: NAME, nice: 0}");
  } else if (by_partition()) {
    priorities_by("partition", "Partitions and their PriorityTier", candidates);
  } else {
    priorities_by("qos", "QOS and their priorities", candidates);
  }
  if (!facts_.accounts.empty()) {
    comment(
        fmt::format("Accounts of {}: {}. `account:` in a priority names one; without, Slurm takes the user's "
                    "default.",
                    facts_.user, listed(facts_.accounts)));
  }
  gap();
}

void SiteText::gpus() {
  std::string text;
  for (const auto& [type, gpu] : facts_.gpus) {
    const std::string each = gpu.of_a_node_min == gpu.of_a_node_max
                                 ? fmt::format("{}", gpu.of_a_node_max)
                                 : fmt::format("{} to {}", gpu.of_a_node_min, gpu.of_a_node_max);
    const std::string where = fmt::format("{} on {} nodes, {} each", gpu.total, gpu.nodes, each);
    if (type.empty()) {
      comment(fmt::format("GPUs without a type: {}; a task asks for them without gpu_type.", where));
    } else {
      text += fmt::format("  {}:  # {}\n    type: {}\n    # aliases: [NAME]\n", yaml_name(type), where,
                          yaml_name(type));
    }
  }
  if (!text.empty()) block("gpus:\n" + text);
  if (facts_.gpus.empty() && facts_.gpus_known) comment("No node has GPUs.");
  if (facts_.gpus.empty() && !facts_.gpus_known) comment("gpus: {NAME: {type: NAME, aliases: [NAME]}}");
  gap();
}

void SiteText::process_start() {
  const auto has = [&](std::string_view type) {
    return std::any_of(facts_.mpi_types.begin(), facts_.mpi_types.end(),
                       [&](const std::string& known) { return known.starts_with(type); });
  };
  if (facts_.mpi_types.empty()) {
    comment("process_start: srun+pmix  # or srun+pmi2, mpirun");
  } else {
    comment(fmt::format("srun's MPI plugins: {}.", listed(facts_.mpi_types)));
    if (has("pmix")) {
      block("process_start: srun+pmix\n");
    } else {
      if (has("pmi2"))
        comment("srun+pmi2 works with an MPI that was built for it; Debian's Open MPI was not.");
      block("process_start: mpirun\n");
    }
  }
  comment("container: {runtime: pyxis}  # or apptainer; Slurm does not tell");
  comment("network: {interface: ib0}    # without: the one that routes to the other nodes");
  comment("polling_interval: 10s        # between two queries of the controller");
  gap();
}

// Those that jobs go to which name none, or that tasks' priorities mean.
std::vector<const PartitionFacts*> SiteText::usual_partitions() const {
  std::vector<const PartitionFacts*> usual;
  std::vector<const PartitionFacts*> all;
  for (const PartitionFacts& partition : facts_.partitions) {
    if (!partition.is_up) continue;
    all.push_back(&partition);
    if (partition.is_default) usual.push_back(&partition);
  }
  return usual.empty() || facts_.preempt_type == "preempt/partition_prio" ? all : usual;
}

void SiteText::limits() {
  const auto time_of = [](const std::optional<milliseconds>& time) {
    return time ? format_duration(*time) : "unlimited";
  };
  std::vector<std::string> shown;
  for (const PartitionFacts& partition : facts_.partitions) {
    shown.push_back(
        fmt::format("{}{} {}{}", partition.name, partition.is_default ? " (the default)" : "",
                    time_of(partition.max_time),
                    partition.max_nodes ? fmt::format(" on {} nodes", *partition.max_nodes) : ""));
  }
  if (!shown.empty()) comment(fmt::format("Partitions and the longest jobs they take: {}.", listed(shown)));
  const auto usual = usual_partitions();
  std::optional<milliseconds> default_time;
  for (const PartitionFacts* partition : usual) {
    if (partition->is_default) default_time = partition->default_time;
  }
  const auto max_time = largest(usual, &PartitionFacts::max_time);
  const auto max_nodes = largest(usual, &PartitionFacts::max_nodes);
  std::string text = "limits:\n";
  text += default_time ? fmt::format("  default_time: {}\n", format_duration(*default_time))
                       : "  # default_time: 1h  # of a task that says none\n";
  text +=
      max_time ? fmt::format("  max_time: {}\n", format_duration(*max_time)) : "  # max_time: unlimited\n";
  text += max_nodes ? fmt::format("  max_nodes: {}\n", *max_nodes) : "  # max_nodes: NUMBER\n";
  block(text);
  gap();
}

void SiteText::preemption() {
  if (facts_.preempt_type.empty()) {
    comment("preemption: {type: preempt/qos, mode: REQUEUE, grace: 15s}");
    return;
  }
  std::vector<std::pair<std::string, milliseconds>> graces;
  if (facts_.preempt_type == "preempt/qos") {
    for (const QosFacts& qos : facts_.qos) {
      if (qos.may_be_preempted && qos.grace) graces.emplace_back(qos.name, *qos.grace);
    }
  } else if (facts_.preempt_type == "preempt/partition_prio") {
    std::int64_t highest = 0;
    for (const PartitionFacts& partition : facts_.partitions)
      highest = std::max(highest, partition.tier.value_or(0));
    for (const PartitionFacts& partition : facts_.partitions) {
      if (partition.may_be_preempted && partition.grace && partition.tier.value_or(0) < highest)
        graces.emplace_back(partition.name, *partition.grace);
    }
  }
  std::string text = fmt::format("preemption:\n  type: {}\n", yaml_name(facts_.preempt_type));
  if (!facts_.preempt_mode.empty()) text += fmt::format("  mode: {}\n", yaml_name(facts_.preempt_mode));
  if (graces.empty()) {
    if (facts_.preempt_type != "preempt/none") text += "  # grace: 15s  # GraceTime is not known\n";
  } else {
    const auto by_time = [](const auto& a, const auto& b) { return a.second < b.second; };
    const milliseconds least = std::min_element(graces.begin(), graces.end(), by_time)->second;
    std::vector<std::string> shown;
    for (const auto& [name, grace] : graces)
      shown.push_back(fmt::format("{} {}", name, format_duration(grace)));
    text += fmt::format("  grace: {}  # GraceTime: {}\n", format_duration(least), listed(shown));
  }
  block(text);
}

void SiteText::requeueing() {
  if (facts_.requeue_hold) {
    block(fmt::format("requeue_hold: {}  # {}\n", format_duration(*facts_.requeue_hold),
                      facts_.requeue_hold_is_the_default ? "Slurm's own: AuthInfo has no cred_expire"
                                                         : "AuthInfo=cred_expire"));
  } else {
    comment("requeue_hold: 2m  # cred_expire of AuthInfo in slurm.conf");
  }
  if (facts_.job_requeue) {
    block(fmt::format("job_requeue: {}\n", *facts_.job_requeue));
  } else {
    comment("job_requeue: true  # JobRequeue of slurm.conf");
  }
  if (facts_.accounting) {
    block(fmt::format("accounting: {}\n", *facts_.accounting));
  } else {
    comment("accounting: true  # sacct answers");
  }
  comment("environment: {NCCL_IB_HCA: mlx5}      # for every rank");
  comment("sbatch_options: [--licenses=NAME]     # for every job");
}

std::string SiteText::write() {
  comment(fmt::format("Written by `muster site detect`: what Slurm{} says about {} to {}.",
                      facts_.slurm_version.empty() ? "" : " " + facts_.slurm_version,
                      facts_.cluster.empty() ? "this cluster" : "cluster " + facts_.cluster, facts_.user));
  comment("Keys are what is certain, comments are yours to decide. docs/site_profile.md explains each key.");
  if (facts_.cluster.empty()) {
    comment("cluster: NAME");
  } else {
    block(fmt::format("cluster: {}\n", yaml_name(facts_.cluster)));
  }
  gap();
  priorities();
  gpus();
  process_start();
  limits();
  preemption();
  requeueing();
  if (!facts_.unknown.empty()) {
    gap();
    comment("Could not find out:");
    for (const std::string& line : facts_.unknown) comment("  " + line);
  }
  return text_;
}

}  // namespace

std::string site_facts_to_yaml(const SiteFacts& facts) { return SiteText(facts).write(); }

}  // namespace muster::slurm
