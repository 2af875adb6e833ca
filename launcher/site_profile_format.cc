#include "launcher/site_profile_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/units.h"

namespace muster {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;

struct Setting {
  std::string key;
  std::string text;  // "-": none
  json value;        // null: none
};

constexpr const char* kNothing = "-";

std::string_view name_of(ContainerRuntime runtime) {
  switch (runtime) {
    case ContainerRuntime::kPyxis:
      return "pyxis";
    case ContainerRuntime::kApptainer:
      return "apptainer";
    case ContainerRuntime::kNone:
      break;
  }
  return "none";
}

std::string_view name_of(ProcessStart start) {
  switch (start) {
    case ProcessStart::kSrunPmi2:
      return "srun+pmi2";
    case ProcessStart::kMpirun:
      return "mpirun";
    case ProcessStart::kSrunPmix:
      break;
  }
  return "srun+pmix";
}

class Settings {
 public:
  explicit Settings(const SiteProfile& profile);
  std::vector<Setting> take() { return std::move(all_); }

 private:
  void add(std::string key, std::string_view text) {
    all_.push_back(
        {std::move(key), std::string(text.empty() ? kNothing : text), text.empty() ? json() : json(text)});
  }
  void add(std::string key, const std::optional<milliseconds>& duration) {
    all_.push_back({std::move(key), duration ? format_duration(*duration) : kNothing,
                    duration ? json(duration->count()) : json()});
  }
  void add(std::string key, const std::optional<int>& number) {
    all_.push_back(
        {std::move(key), number ? std::to_string(*number) : kNothing, number ? json(*number) : json()});
  }
  void add(std::string key, const std::optional<bool>& truth) {
    all_.push_back({std::move(key),
                    !truth   ? kNothing
                    : *truth ? "true"
                             : "false",
                    truth ? json(*truth) : json()});
  }
  void add(std::string key, const std::vector<std::string>& list) {
    all_.push_back(
        {std::move(key), list.empty() ? kNothing : fmt::format("{}", fmt::join(list, " ")), json(list)});
  }
  void add_priority(const std::string& name, const PriorityClass& priority) {
    add(name + ".qos", priority.qos);
    add(name + ".partition", priority.partition);
    add(name + ".account", priority.account);
    add(name + ".nice", priority.nice);
  }

  std::vector<Setting> all_;
};

Settings::Settings(const SiteProfile& profile) {
  add("cluster", profile.cluster);
  add_priority("priority.low", profile.low);
  add_priority("priority.normal", profile.normal);
  add_priority("priority.high", profile.high);
  for (const auto& [name, gpu] : profile.gpus) {
    add(fmt::format("gpus.{}.type", name), gpu.gres_type);
    add(fmt::format("gpus.{}.aliases", name), gpu.aliases);
  }
  add("container.runtime", name_of(profile.container));
  add("process_start", name_of(profile.process_start));
  add("network.interface", profile.network_interface);
  for (const EnvironmentVariable& variable : profile.environment) {
    const std::string shown = variable.secret ? "***" : variable.value;
    all_.push_back({"environment." + variable.name, shown, json(shown)});
  }
  add("polling_interval", std::optional(profile.polling_interval));
  add("sbatch_options", profile.sbatch_options);
  add("limits.default_time", std::optional(profile.limits.default_time));
  add("limits.max_time", profile.limits.max_time);
  add("limits.max_nodes", profile.limits.max_nodes);
  add("preemption.type", profile.preemption.type);
  add("preemption.mode", profile.preemption.mode);
  add("preemption.grace", profile.preemption.grace);
  add("requeue_hold", profile.requeue_hold);
  add("job_requeue", profile.job_requeue);
  add("accounting", profile.accounting);
}

}  // namespace

std::string site_profile_to_text(const SiteProfile& profile, const std::vector<std::string>& files) {
  const std::vector<Setting> settings = Settings(profile).take();
  std::size_t key_width = 0;
  std::size_t text_width = 0;
  for (const Setting& setting : settings) {
    key_width = std::max(key_width, setting.key.size());
    text_width = std::max(text_width, setting.text.size());
  }
  constexpr std::size_t kTextWidthMax = 32;
  text_width = std::min(text_width, kTextWidthMax);
  std::string text = files.empty() ? "no site profile; all is default (docs/site_profile.md)\n"
                                   : fmt::format("from {}\n", fmt::join(files, ", then "));
  for (const Setting& setting : settings) {
    const auto origin = profile.origins.find(setting.key);
    const std::string from = origin == profile.origins.end()
                                 ? "default"
                                 : fmt::format("{}:{}:{}", origin->second.file, origin->second.position.line,
                                               origin->second.position.column);
    text += fmt::format("{:<{}}  {:<{}}  {}\n", setting.key, key_width, setting.text, text_width, from);
  }
  return text;
}

json site_profile_to_json(const SiteProfile& profile, const std::vector<std::string>& files) {
  json settings = json::object();
  for (const Setting& setting : Settings(profile).take()) {
    json& shown = settings[setting.key];
    shown["value"] = setting.value;
    const auto origin = profile.origins.find(setting.key);
    if (origin == profile.origins.end()) continue;
    shown["file"] = origin->second.file;
    shown["line"] = origin->second.position.line;
    shown["column"] = origin->second.position.column;
  }
  return {{"files", files}, {"settings", std::move(settings)}};
}

}  // namespace muster
