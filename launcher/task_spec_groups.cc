// The groups of a task file that are not the trainer's, and paths.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "launcher/shared_readers.h"
#include "launcher/task_spec_readers.h"

namespace muster::task_file {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kWorkersMax = 65'536;
constexpr int kRetriesMax = 1'000'000;
constexpr milliseconds kSecond{1'000};
constexpr milliseconds kDay{86'400'000};

bool has_control_character(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; });
}

void read_retry(GroupReader group, RetryBudgets& retry) {
  group.integer("crashes_without_progress", 0, kRetriesMax, retry.crashes_without_progress);
  group.integer("crashes_total", 0, kRetriesMax, retry.crashes_total);
  group.integer("node_failures", 0, kRetriesMax, retry.node_failures);
  group.integer("launcher_errors", 0, kRetriesMax, retry.launcher_errors);
  group.finish();
}

bool read_mount_text(const std::string& text, const TaskFileContext& context, MountSpec& mount,
                     std::string& found) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', begin)) {
    parts.push_back(text.substr(begin, colon - begin));
    begin = colon + 1;
  }
  parts.push_back(text.substr(begin));
  found = fmt::format("'{}'", text);
  const bool has_mode = parts.size() == 3 && (parts[2] == "ro" || parts[2] == "rw");
  if (parts.size() != 2 && !has_mode) return false;
  const auto source = expand_path(parts[0], context);
  const auto target = expand_path(parts[1], context);
  if (!source || !target) {
    found = source ? target.error().message : source.error().message;
    return false;
  }
  mount = {*source, *target, has_mode && parts[2] == "ro"};
  return true;
}

}  // namespace

Result<std::string> expand_path(const std::string& text, const TaskFileContext& context) {
  if (has_control_character(text))
    return fail(ErrorCode::kInvalidArgument, "a path with a control character");
  if (text.empty()) return fail(ErrorCode::kInvalidArgument, "an empty path");
  std::string expanded = text;
  if (text.starts_with("${")) {
    const auto end = text.find('}');
    const std::string name = end == std::string::npos ? "" : text.substr(2, end - 2);
    const bool is_whole_part = end != std::string::npos && (end + 1 == text.size() || text[end + 1] == '/');
    if ((name != "TASK_DIR" && name != "HOME") || !is_whole_part) {
      return fail(ErrorCode::kInvalidArgument, "'{}'", text);
    }
    if (name == "HOME" && context.home.empty()) {
      return fail(ErrorCode::kInvalidArgument, "'{}' while HOME is not set", text);
    }
    const std::string value = name == "HOME" ? context.home : fs::path(context.file).parent_path().string();
    expanded = value + text.substr(end + 1);
  }
  if (expanded.find("${") != std::string::npos) return fail(ErrorCode::kInvalidArgument, "'{}'", text);
  if (!fs::path(expanded).is_absolute())
    return fail(ErrorCode::kInvalidArgument, "the relative path '{}'", text);
  std::string path = fs::path(expanded).lexically_normal().string();
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool read_path(GroupReader& group, std::string_view key, const TaskFileContext& context, std::string& path) {
  const YamlNode* node = group.take(key);
  if (node == nullptr) return false;
  if (node->kind != YamlNode::Kind::kScalar || node->text.empty()) {
    group.reject(key, *node, kPathForms);
    return false;
  }
  const auto expanded = expand_path(node->text, context);
  if (!expanded) {
    group.reject_found(key, node->position, expanded.error().message, kPathForms);
    return false;
  }
  path = *expanded;
  return true;
}

void read_resources(GroupReader group, ResourcesSpec& resources) {
  constexpr int kCpusMax = 65'536;
  group.text("gpu_type", resources.gpu_type);
  group.integer("cpus_per_worker", 1, kCpusMax, resources.cpus_per_worker);
  group.memory("memory_per_worker", resources.memory_bytes);
  read_time_limit(group, "time_limit", resources.time_limit);
  group.text("constraint", resources.constraint);
  group.text_list("exclude", resources.exclude);
  group.finish();
}

void read_schedule(GroupReader group, ScheduleSpec& schedule) {
  group.choice<Priority>("priority",
                         {{"low", Priority::kLow}, {"normal", Priority::kNormal}, {"high", Priority::kHigh}},
                         schedule.priority);
  group.boolean("preemptible", schedule.preemptible);
  group.integer("min_workers", 1, kWorkersMax, schedule.min_workers);
  group.integer("max_workers", 1, kWorkersMax, schedule.max_workers);
  group.integer("spare_workers", 0, kWorkersMax, schedule.spare_workers);
  read_retry(group.group("retry"), schedule.retry);
  group.duration("grace", {kSecond, kDay}, schedule.grace);
  group.choice<std::string>("stop_signal",
                            {{"SIGUSR1", "SIGUSR1"},
                             {"SIGUSR2", "SIGUSR2"},
                             {"SIGTERM", "SIGTERM"},
                             {"SIGINT", "SIGINT"},
                             {"SIGHUP", "SIGHUP"}},
                            schedule.stop_signal);
  group.finish();
}

void read_network(GroupReader group, NetworkSpec& network) {
  read_interface(group, "interface", network.interface);
  bool rdma = false;
  if (group.boolean("rdma", rdma)) network.rdma = rdma;
  const auto is_variable = [](const std::string& key) {
    return is_environment_name(key) && (key.starts_with("NCCL_") || key.starts_with("UCX_"));
  };
  for (const YamlEntry* entry : group.take_matching(is_variable)) {
    if (entry->value.kind == YamlNode::Kind::kScalar) {
      network.variables.push_back(
          {entry->key, entry->value.text, looks_secret(entry->key, entry->value.text)});
    } else if (entry->value.kind != YamlNode::Kind::kInvalid) {
      group.reject(entry->key, entry->value, "a text");
    }
  }
  group.know("NCCL_*");
  group.know("UCX_*");
  group.finish();
}

void read_hooks(GroupReader group, HooksSpec& hooks) {
  group.text_list("on_preempt", hooks.on_preempt);
  group.text_list("on_end", hooks.on_end);
  group.text_list("before", hooks.before);
  group.text_list("after", hooks.after);
  group.finish();
}

void read_mounts(GroupReader& file, const TaskFileContext& context, std::vector<MountSpec>& mounts) {
  constexpr std::string_view kAllowed =
      "a list of SOURCE:TARGET, SOURCE:TARGET:ro or {source, target, read_only}, both paths absolute";
  const YamlNode* list = file.take("mounts");
  if (list == nullptr) return;
  if (list->kind != YamlNode::Kind::kSequence) {
    file.reject("mounts", *list, kAllowed);
    return;
  }
  for (const YamlNode& item : list->items) {
    MountSpec mount;
    if (item.kind == YamlNode::Kind::kMap) {
      GroupReader group = file.item_group("mounts", item);
      group.require("source", kPathForms);
      group.require("target", kPathForms);
      const bool has_source = read_path(group, "source", context, mount.source);
      const bool has_target = read_path(group, "target", context, mount.target);
      group.boolean("read_only", mount.read_only);
      group.finish();
      if (has_source && has_target) mounts.push_back(mount);
      continue;
    }
    std::string found = describe(item);
    if (item.kind == YamlNode::Kind::kScalar && read_mount_text(item.text, context, mount, found)) {
      mounts.push_back(mount);
    } else if (item.kind != YamlNode::Kind::kInvalid) {
      file.reject_found("mounts", item.position, found, kAllowed);
    }
  }
}

}  // namespace muster::task_file
