// parse_task and load_task_file: the keys at the top level, and the order in which all is read.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <system_error>

#include "common/file_ops.h"
#include "launcher/shared_readers.h"
#include "launcher/task_spec.h"
#include "launcher/task_spec_readers.h"
#include "launcher/yaml_document.h"

namespace muster {

namespace {

namespace fs = std::filesystem;
using task_file::expand_path;

constexpr int kWorkersMax = 65'536;
constexpr int kPerWorkerMax = 1'024;

bool is_task_name(const std::string& name) {
  constexpr std::size_t kNameMax = 64;
  const auto is_inner = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kNameMax &&
         std::isalnum(static_cast<unsigned char>(name.front())) != 0 &&
         std::all_of(name.begin(), name.end(), is_inner);
}

void read_task_name(GroupReader& file, std::string& task_name) {
  constexpr std::string_view kAllowed =
      "1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit";
  file.require("task_name", kAllowed);
  const YamlNode* node = file.take("task_name");
  if (node == nullptr) return;
  if (node->kind != YamlNode::Kind::kScalar || !is_task_name(node->text)) {
    file.reject("task_name", *node, kAllowed);
    return;
  }
  task_name = node->text;
}

// muster-train and commands on PATH keep their name; everything else becomes an absolute path.
void read_entry_point(GroupReader& file, const TaskFileContext& context, std::string& entry_point) {
  constexpr std::string_view kAllowed =
      "muster-train, a script or executable (a path that is absolute, relative to the task file, or begins "
      "with "
      "${TASK_DIR} or ${HOME}), or a command on PATH";
  file.require("entry_point", kAllowed);
  const YamlNode* node = file.take("entry_point");
  if (node == nullptr) return;
  if (node->kind != YamlNode::Kind::kScalar || node->text.empty()) {
    file.reject("entry_point", *node, kAllowed);
    return;
  }
  const std::string& text = node->text;
  if (text == "muster-train") {
    entry_point = text;
    return;
  }
  const bool has_prefix = text.starts_with("$") || text.starts_with("/") || text.starts_with("~");
  const std::string beside = (fs::path(context.file).parent_path() / text).lexically_normal().string();
  if (!has_prefix) {
    const bool is_command =
        text.find('/') == std::string::npos && !text.ends_with(".py") && !context.file_exists(beside);
    entry_point = is_command ? text : beside;
    return;
  }
  const auto path = expand_path(text, context);
  if (path) {
    entry_point = *path;
  } else {
    file.reject_found("entry_point", node->position, path.error().message, kAllowed);
  }
}

void read_args(GroupReader& file, std::vector<std::string>& args) {
  const YamlNode* node = file.take("args");
  if (node == nullptr) return;
  if (node->kind != YamlNode::Kind::kSequence) {
    file.reject("args", *node, "a list of texts");
    return;
  }
  for (const YamlNode& item : node->items) {
    if (item.kind == YamlNode::Kind::kScalar) {
      args.push_back(item.text);
    } else if (item.kind != YamlNode::Kind::kInvalid) {
      file.reject("args", item, "a text in each place of the list");
    }
  }
}

void read_file(const YamlNode& root, const TaskFileContext& context, ReadContext& reading, TaskSpec& spec) {
  GroupReader file(root, "", reading);
  read_task_name(file, spec.task_name);
  file.integer("num_workers", 1, kWorkersMax, spec.num_workers);
  file.integer("gpu_per_worker", 0, kPerWorkerMax, spec.gpu_per_worker);
  file.integer("ranks_per_worker", 1, kPerWorkerMax, spec.ranks_per_worker);
  file.text("image", spec.image);
  read_entry_point(file, context, spec.entry_point);
  read_args(file, spec.args);
  task_file::read_path(file, "data_path", context, spec.data_path);
  task_file::read_path(file, "checkpoint_path", context, spec.checkpoint_path);
  task_file::read_resources(file.group("resources"), spec.resources);
  task_file::read_schedule(file.group("schedule"), spec.schedule);
  TrainerSpec trainer;
  task_file::read_trainer(file.group("trainer"), context, trainer);
  if (spec.is_trainer()) spec.trainer = std::move(trainer);
  task_file::read_mounts(file, context, spec.mounts);
  read_environment(file.group("env"), spec.env);
  task_file::read_network(file.group("network"), spec.network);
  task_file::read_hooks(file.group("hooks"), spec.hooks);
  file.finish();
  reading.finish();
  spec.positions = reading.positions();
  task_file::apply_rules(spec, reading);
}

}  // namespace

Result<TaskSpec> parse_task(std::string_view text, const TaskFileContext& context) {
  Diagnostics diagnostics(context.shown_file);
  const YamlNode root = parse_yaml(text, diagnostics);
  TaskSpec spec;
  spec.file = context.file;
  spec.shown_file = context.shown_file;
  spec.directory = fs::path(context.file).parent_path().string();
  spec.source_text = std::string(text);
  if (root.kind == YamlNode::Kind::kMap) {
    ReadContext reading(diagnostics);
    read_file(root, context, reading, spec);
  } else if (root.kind == YamlNode::Kind::kNull) {
    diagnostics.error(
        {}, "the file is empty; allowed: keys and values, of which task_name and entry_point must be there");
  } else if (root.kind != YamlNode::Kind::kInvalid) {
    diagnostics.error(root.position, fmt::format("found {}; allowed: keys and values", describe(root)));
  }
  if (!diagnostics.empty())
    return tl::unexpected<Error>(Error{ErrorCode::kInvalidArgument, diagnostics.text()});
  return spec;
}

Result<TaskSpec> load_task_file(const fs::path& path) {
  if (path.empty())
    return fail(ErrorCode::kNotFound, "found an empty file name; allowed: the path of a task file");
  MUSTER_ASSIGN(const std::string text, read_text_file(path));
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  if (error) return fail(ErrorCode::kIo, "cannot find the folder of {}: {}", path.string(), error.message());
  TaskFileContext context;
  context.shown_file = path.string();
  context.file = absolute.string();
  const char* home = std::getenv("HOME");
  context.home = home == nullptr ? "" : home;
  context.file_exists = [](const std::string& candidate) {
    std::error_code ignored;
    return fs::is_regular_file(candidate, ignored);
  };
  return parse_task(text, context);
}

}  // namespace muster
