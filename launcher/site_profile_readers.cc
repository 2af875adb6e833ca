#include "launcher/site_profile_readers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

#include "launcher/shared_readers.h"

namespace muster::site_file {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSecond{1'000};
constexpr milliseconds kHour{3'600'000};
constexpr milliseconds kDay{86'400'000};
constexpr milliseconds kYear{365 * kDay};
constexpr int kNodesMax = 65'536;

// Nothing that a shell, an #SBATCH line or a list in commas would read otherwise.
bool is_plain_word(std::string_view text, std::string_view besides) {
  return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || besides.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

constexpr std::string_view kGpuNameForms = "a name of letters, digits, '_', '-', '.', '+' and spaces within";

bool is_gpu_name(std::string_view text) {
  return is_plain_word(text, "_-.+ ") && text.front() != ' ' && text.back() != ' ';
}

void read_priority_class(GroupReader group, PriorityClass& priority) {
  constexpr std::int64_t kNiceMax = 2'147'483'645;  // Slurm's
  read_name(group, "qos", priority.qos);
  read_name(group, "partition", priority.partition);
  read_name(group, "account", priority.account);
  int nice = 0;
  if (group.integer("nice", -kNiceMax, kNiceMax, nice)) priority.nice = nice;
  group.finish();
}

void read_priority(GroupReader group, SiteProfile& profile) {
  read_priority_class(group.group("low"), profile.low);
  read_priority_class(group.group("normal"), profile.normal);
  read_priority_class(group.group("high"), profile.high);
  group.finish();
}

void read_aliases(GroupReader& group, const std::string& name, GpuType& gpu, AliasPositions& aliases) {
  constexpr std::string_view kKey = "aliases";
  const YamlNode* node = group.take(kKey);
  if (node == nullptr) return;
  const bool is_list = node->kind == YamlNode::Kind::kSequence;
  std::vector<SourcePosition>& positions = aliases[name];
  gpu.aliases.clear();
  for (const YamlNode& item : is_list ? node->items : std::vector<YamlNode>{*node}) {
    if (item.kind == YamlNode::Kind::kScalar && is_gpu_name(item.text)) {
      gpu.aliases.push_back(item.text);
      positions.push_back(item.position);
    } else if (item.kind != YamlNode::Kind::kInvalid) {
      group.reject(kKey, item, kGpuNameForms);
    }
  }
}

void read_gpu_type(GroupReader group, const std::string& name, GpuType& gpu, AliasPositions& aliases) {
  constexpr std::string_view kKey = "type";
  if (const YamlNode* node = group.take(kKey); node != nullptr) {
    if (node->kind == YamlNode::Kind::kScalar && is_plain_word(node->text, "_-.+")) {
      gpu.gres_type = node->text;
    } else {
      group.reject(kKey, *node, "a GRES type of letters, digits, '_', '-', '.' and '+'");
    }
  }
  read_aliases(group, name, gpu, aliases);
  group.finish();
}

void read_limits(GroupReader group, SiteLimits& limits) {
  group.duration("default_time", {kSecond, kYear}, limits.default_time);
  read_time_limit(group, "max_time", limits.max_time);
  int nodes = 0;
  if (group.integer("max_nodes", 1, kNodesMax, nodes)) limits.max_nodes = nodes;
  group.finish();
}

void read_site_environment(GroupReader group, std::vector<EnvironmentVariable>& environment) {
  std::vector<EnvironmentVariable> read;
  read_environment(std::move(group), read);
  for (EnvironmentVariable& variable : read) {
    const auto same = std::find_if(environment.begin(), environment.end(),
                                   [&](const EnvironmentVariable& v) { return v.name == variable.name; });
    if (same == environment.end()) {
      environment.push_back(std::move(variable));
    } else {
      *same = std::move(variable);
    }
  }
}

void read_optional_boolean(GroupReader& file, std::string_view key, std::optional<bool>& value) {
  bool read = false;
  if (file.boolean(key, read)) value = read;
}

void read_optional_duration(GroupReader& group, std::string_view key, std::optional<milliseconds>& value) {
  milliseconds read{0};
  if (group.duration(key, {milliseconds{0}, kDay}, read)) value = read;
}

}  // namespace

bool read_name(GroupReader& group, std::string_view key, std::string& name) {
  const YamlNode* node = group.take(key);
  if (node == nullptr) return false;
  const bool is_none = node->kind == YamlNode::Kind::kScalar && node->text.empty() && node->quoted;
  if (!is_none && (node->kind != YamlNode::Kind::kScalar || !is_plain_word(node->text, "_-.+:@/,"))) {
    group.reject(key, *node, "a name of letters, digits and any of _-.+:@/, or \"\" for the site's default");
    return false;
  }
  name = node->text;
  return true;
}

void read_gpus(GroupReader group, std::map<std::string, GpuType>& gpus, AliasPositions& aliases) {
  for (const YamlEntry* entry : group.take_matching([](const std::string&) { return true; })) {
    if (!is_gpu_name(entry->key)) {
      group.reject_found(entry->key, entry->key_position, "a name that is none of a GPU", kGpuNameForms);
      continue;
    }
    GpuType& gpu = gpus[entry->key];
    if (gpu.gres_type.empty()) gpu.gres_type = entry->key;
    read_gpu_type(group.group(entry->key), entry->key, gpu, aliases);
  }
}

void read_preemption(GroupReader group, PreemptionFacts& preemption) {
  constexpr std::array<std::string_view, 6> kModes{"OFF", "CANCEL", "GANG", "REQUEUE", "SUSPEND", "WITHIN"};
  group.choice<std::string>("type",
                            {{"preempt/none", "preempt/none"},
                             {"preempt/partition_prio", "preempt/partition_prio"},
                             {"preempt/qos", "preempt/qos"}},
                            preemption.type);
  if (const YamlNode* node = group.take("mode"); node != nullptr) {
    std::string upper = node->text;
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    bool good = node->kind == YamlNode::Kind::kScalar;
    for (std::string_view rest = upper; good;) {
      const std::size_t comma = rest.find(',');
      good = std::find(kModes.begin(), kModes.end(), rest.substr(0, comma)) != kModes.end();
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    if (good) {
      preemption.mode = upper;
    } else {
      group.reject("mode", *node,
                   "OFF, CANCEL, GANG, REQUEUE, SUSPEND, WITHIN, or several, as in GANG,SUSPEND");
    }
  }
  read_optional_duration(group, "grace", preemption.grace);
  group.finish();
}

void read_file(GroupReader& file, SiteProfile& profile, AliasPositions& aliases) {
  read_name(file, "cluster", profile.cluster);
  read_priority(file.group("priority"), profile);
  read_gpus(file.group("gpus"), profile.gpus, aliases);
  GroupReader container = file.group("container");
  container.choice<ContainerRuntime>("runtime",
                                     {{"none", ContainerRuntime::kNone},
                                      {"pyxis", ContainerRuntime::kPyxis},
                                      {"apptainer", ContainerRuntime::kApptainer}},
                                     profile.container);
  container.finish();
  file.choice<ProcessStart>("process_start",
                            {{"srun+pmix", ProcessStart::kSrunPmix},
                             {"srun+pmi2", ProcessStart::kSrunPmi2},
                             {"mpirun", ProcessStart::kMpirun}},
                            profile.process_start);
  GroupReader network = file.group("network");
  read_interface(network, "interface", profile.network_interface);
  network.finish();
  read_site_environment(file.group("environment"), profile.environment);
  file.duration("polling_interval", {kSecond, kHour}, profile.polling_interval);
  read_sbatch_options(file, profile.sbatch_options);
  read_limits(file.group("limits"), profile.limits);
  read_preemption(file.group("preemption"), profile.preemption);
  read_optional_duration(file, "requeue_hold", profile.requeue_hold);
  read_optional_boolean(file, "job_requeue", profile.job_requeue);
  read_optional_boolean(file, "accounting", profile.accounting);
  file.finish();
}

}  // namespace muster::site_file
