// The run index: $XDG_STATE_HOME/muster/runs/<run id>.json (default ~/.local/state), one small file a run, so
// that `muster list|status|logs|rm` find a run whatever its checkpoint path. Each file is published
// atomically.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/run_directory.h"

namespace muster {

std::filesystem::path state_directory();

Status index_run(const RunDirectory& run);
Status forget_run(std::string_view run_id);

// All indexed runs, newest first. An entry whose directory is gone is listed with missing = true.
struct IndexedRun {
  RunDirectory run;
  bool missing = false;
};
Result<std::vector<IndexedRun>> indexed_runs();

// A run id, a unique prefix of one, a task name (its newest run), or the path of a run directory.
Result<RunDirectory> resolve_run(std::string_view name);

}  // namespace muster
