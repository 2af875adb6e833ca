// The run index: $XDG_STATE_HOME/muster/runs/<run id>.json (default ~/.local/state), one small file a run, so
// that `muster list|status|logs|rm` find a run whatever its checkpoint path. Each file is published
// atomically; a damaged one is passed over, since it only points at what is elsewhere.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/file_ops.h"
#include "common/status.h"
#include "launcher/run_directory.h"

namespace muster {

// Absolute. XDG_STATE_HOME is passed over unless it is absolute, as its standard demands.
std::filesystem::path state_directory();

Status index_run(const RunDirectory& run, FileOps& ops = posix_file_ops());
// No error if it is not there.
Status forget_run(std::string_view run_id);

// An entry whose directory is gone, or is no longer this run's, is listed with missing = true.
struct IndexedRun {
  RunDirectory run;
  std::string task_name;
  double created_unix_s = 0;
  bool missing = false;
};
// Newest first.
Result<std::vector<IndexedRun>> indexed_runs();

// A run id, the path of a run directory, a task name (its newest run), or a unique prefix of a run id; the
// first that fits. A run whose directory is gone is found too. kNotFound names the nearest known runs,
// kInvalidArgument the candidates of an ambiguous prefix.
Result<RunDirectory> resolve_run(std::string_view name);

}  // namespace muster
