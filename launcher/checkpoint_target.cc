#include "launcher/checkpoint_target.h"

#include <algorithm>
#include <system_error>

#include "launcher/run_index.h"

namespace muster {

namespace fs = std::filesystem;

Result<CheckpointTarget> find_checkpoints(std::string_view name) {
  std::error_code ignored;
  if (!fs::is_directory(name, ignored)) {
    if (fs::exists(name, ignored)) {
      return fail(ErrorCode::kNotFound,
                  "{} is no directory; expected a directory of checkpoints, a checkpoint or a run", name);
    }
    MUSTER_ASSIGN(const RunDirectory run, resolve_run(name));
    return CheckpointTarget{run.checkpoints(), std::nullopt};
  }
  // Without a trailing slash, "." or "..", so that the last part is the directory's own name.
  fs::path path = fs::canonical(name, ignored);
  const bool is_step = checkpoint::parse_step_directory_name(path.filename().string()).has_value();
  if (is_step || fs::exists(path / checkpoint::kManifestFile, ignored)) {
    return CheckpointTarget{path.parent_path(), path};
  }
  const fs::path of_run = RunDirectory{"", path}.checkpoints();
  return CheckpointTarget{fs::is_directory(of_run, ignored) ? of_run : path, std::nullopt};
}

Result<fs::path> named_or_newest(const CheckpointTarget& target) {
  if (target.checkpoint) return *target.checkpoint;
  MUSTER_ASSIGN(const auto directories, checkpoint::step_directories(target.directory));
  const auto newest = std::find_if(directories.rbegin(), directories.rend(),
                                   [](const checkpoint::StepDirectory& d) { return d.committed; });
  if (newest != directories.rend()) return newest->path;
  return fail(ErrorCode::kNotFound, "there is no committed checkpoint in {}", target.directory.string());
}

}  // namespace muster
