// Which options of sbatch a site may add: all but those that muster decides itself, abbreviated or not.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "launcher/site_profile_readers.h"

namespace muster::site_file {

namespace {

struct OwnOption {
  std::string_view name;
  std::string_view decided_by;  // the key that says it, where there is one
};

constexpr std::string_view kTaskWorkers = "num_workers and ranks_per_worker of the task file";
constexpr std::string_view kTaskResources = "resources of the task file";
constexpr std::string_view kGpus = "gpus here, gpu_per_worker and resources.gpu_type of the task file";
constexpr std::string_view kTimes = "limits here, resources.time_limit of the task file";
constexpr std::string_view kPriority = "priority here";

constexpr std::array kOwnOptions{
    OwnOption{"--account", kPriority},
    OwnOption{"--array", ""},
    OwnOption{"--begin", ""},
    OwnOption{"--chdir", ""},
    OwnOption{"--clusters", ""},
    OwnOption{"--comment", ""},
    OwnOption{"--constraint", kTaskResources},
    OwnOption{"--container", "container here"},
    OwnOption{"--cpus-per-gpu", kTaskResources},
    OwnOption{"--cpus-per-task", kTaskResources},
    OwnOption{"--dependency", ""},
    OwnOption{"--error", ""},
    OwnOption{"--exclude", kTaskResources},
    OwnOption{"--export", "environment here"},
    OwnOption{"--export-file", "environment here"},
    OwnOption{"--gpus", kGpus},
    OwnOption{"--gpus-per-node", kGpus},
    OwnOption{"--gpus-per-socket", kGpus},
    OwnOption{"--gpus-per-task", kGpus},
    OwnOption{"--gres", kGpus},
    OwnOption{"--help", ""},
    OwnOption{"--hold", ""},
    OwnOption{"--input", ""},
    OwnOption{"--job-name", "task_name of the task file"},
    OwnOption{"--mem", kTaskResources},
    OwnOption{"--mem-per-cpu", kTaskResources},
    OwnOption{"--mem-per-gpu", kTaskResources},
    OwnOption{"--nice", kPriority},
    OwnOption{"--no-kill", ""},
    OwnOption{"--no-requeue", ""},
    OwnOption{"--nodelist", kTaskResources},
    OwnOption{"--nodes", kTaskWorkers},
    OwnOption{"--ntasks", kTaskWorkers},
    OwnOption{"--ntasks-per-core", kTaskWorkers},
    OwnOption{"--ntasks-per-gpu", kTaskWorkers},
    OwnOption{"--ntasks-per-node", kTaskWorkers},
    OwnOption{"--ntasks-per-socket", kTaskWorkers},
    OwnOption{"--open-mode", ""},
    OwnOption{"--output", ""},
    OwnOption{"--parsable", ""},
    OwnOption{"--partition", kPriority},
    OwnOption{"--qos", kPriority},
    OwnOption{"--requeue", ""},
    OwnOption{"--signal", "schedule.grace and schedule.stop_signal of the task file"},
    OwnOption{"--test-only", ""},
    OwnOption{"--time", kTimes},
    OwnOption{"--time-min", kTimes},
    OwnOption{"--usage", ""},
    OwnOption{"--use-min-nodes", kTaskWorkers},
    OwnOption{"--version", ""},
    OwnOption{"--wait", ""},
    OwnOption{"--wrap", ""},
};

bool is_long_option(std::string_view name) {
  const auto is_inner = [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
  };
  return name.size() > 2 && name.starts_with("--") && name[2] != '-' &&
         std::all_of(name.begin(), name.end(), is_inner);
}

bool is_printable(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; });
}

}  // namespace

std::string sbatch_option_fault(std::string_view option) {
  const std::string_view name = option.substr(0, option.find('='));
  if (!is_long_option(name) || !is_printable(option)) return ", which is no long option in one text";
  const auto exact = std::find_if(kOwnOptions.begin(), kOwnOptions.end(),
                                  [&](const OwnOption& own) { return own.name == name; });
  // sbatch takes every beginning of an option's name for the option.
  const auto meant = exact != kOwnOptions.end()
                         ? exact
                         : std::find_if(kOwnOptions.begin(), kOwnOptions.end(),
                                        [&](const OwnOption& own) { return own.name.starts_with(name); });
  if (meant == kOwnOptions.end()) return "";
  return fmt::format(": {} is for muster to decide{}", meant->name,
                     meant->decided_by.empty() ? "" : fmt::format(" (from {})", meant->decided_by));
}

void read_sbatch_options(GroupReader& file, std::vector<std::string>& options) {
  constexpr std::string_view kKey = "sbatch_options";
  constexpr std::string_view kAllowed = "a list of other long options of sbatch, each as in --licenses=a";
  const YamlNode* list = file.take(kKey);
  if (list == nullptr) return;
  if (list->kind != YamlNode::Kind::kSequence) {
    file.reject(kKey, *list, kAllowed);
    return;
  }
  std::vector<std::string> read;
  for (const YamlNode& item : list->items) {
    if (item.kind == YamlNode::Kind::kInvalid) continue;
    if (item.kind != YamlNode::Kind::kScalar) {
      file.reject(kKey, item, kAllowed);
      continue;
    }
    const std::string fault = sbatch_option_fault(item.text);
    if (!fault.empty()) file.reject_found(kKey, item.position, describe(item) + fault, kAllowed);
    read.push_back(item.text);
  }
  options = std::move(read);
}

}  // namespace muster::site_file
