// The parts of parse_task, one a group of keys. Private to the parser.
#pragma once

#include <string>

#include "launcher/task_spec.h"
#include "launcher/yaml_reader.h"

namespace muster::task_file {

inline constexpr std::string_view kPathForms =
    "an absolute path, or one that begins with ${TASK_DIR} or ${HOME}";

// ${TASK_DIR} and ${HOME} at the front of `text` replaced; normalised; must be absolute.
// The error's message is what was found.
Result<std::string> expand_path(const std::string& text, const TaskFileContext& context);

bool read_path(GroupReader& group, std::string_view key, const TaskFileContext& context, std::string& path);

void read_resources(GroupReader group, ResourcesSpec& resources);
void read_schedule(GroupReader group, ScheduleSpec& schedule);
void read_network(GroupReader group, NetworkSpec& network);
void read_hooks(GroupReader group, HooksSpec& hooks);
void read_mounts(GroupReader& file, const TaskFileContext& context, std::vector<MountSpec>& mounts);
void read_trainer(GroupReader group, const TaskFileContext& context, TrainerSpec& trainer);

// What no single key can tell. Resolves defaults that depend on other keys, too.
void apply_rules(TaskSpec& spec, ReadContext& context);

}  // namespace muster::task_file
