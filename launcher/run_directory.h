// One run, one directory: <checkpoint root>/<run id>/
//   run.json                      id, task name, task file, creation, fingerprint (rewritten by update_run)
//   task.yaml                     the task file as submitted (mode 600: it may hold secrets)
//   plan.json                     the plan, secrets masked
//   journal.jsonl                 every event; one writer, the supervisor
//   channel.key                   the secret of the event channel (mode 600)
//   leases/N.json                 who supervises this run now (launcher/lease.h)
//   attempts/N/                   environment.json (mode 600), hostfile, rendezvous/
//   logs/attempt-N/               rank-R.log, launcher.log
//   checkpoints/                  step-…/
//   requests/ID.save              somebody asks for a checkpoint now (launcher/save_requests.h)
// A run id is <task name>-<8 hex digits>, made once, stable over attempts and restarts.
// Whoever writes below a run directory holds its lease; create_run needs none, as nobody knows the id yet,
// and a request is made to whoever holds it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/file_ops.h"
#include "common/status.h"
#include "launcher/plan.h"

namespace muster {

struct RunDirectory {
  std::string run_id;
  std::filesystem::path path;

  std::filesystem::path run_info() const { return path / "run.json"; }
  std::filesystem::path task() const { return path / "task.yaml"; }
  std::filesystem::path plan() const { return path / "plan.json"; }
  std::filesystem::path journal() const { return path / "journal.jsonl"; }
  std::filesystem::path channel_key() const { return path / "channel.key"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path requests() const { return path / "requests"; }
  std::filesystem::path attempt(int number) const { return path / "attempts" / std::to_string(number); }
  std::filesystem::path logs() const { return path / "logs"; }
  std::filesystem::path logs(int attempt_number) const {
    return logs() / ("attempt-" + std::to_string(attempt_number));
  }
};

using Fingerprint = std::vector<std::pair<std::string, std::string>>;

struct RunInfo {
  std::string run_id;
  std::string task_name;
  std::string task_file;
  double created_unix_s = 0;
  Fingerprint fingerprint;
};

// The newest run of this task (same task name) below the plan's checkpoint root.
Result<std::optional<RunDirectory>> find_run(const Plan& plan);

// Makes the directory, all of it or nothing, and enters it into the run index.
Result<RunDirectory> create_run(const Plan& plan, const std::string& task_text,
                                FileOps& ops = posix_file_ops());

// kNotFound: no run directory. kCorrupt: run.json is damaged.
Result<RunInfo> read_run_info(const RunDirectory& run);

struct FingerprintDifference {
  std::string key;
  std::string before;  // empty: absent
  std::string now;
};

// What changed in the result-deciding part of the task. That the checkpoint of an unchanged trainer.init_from
// can no longer be seen is no change: its run has begun.
std::vector<FingerprintDifference> fingerprint_differences(const Fingerprint& before, const Fingerprint& now);

// Replaces task.yaml, plan.json and the fingerprint (but for the identity of a checkpoint that can no longer
// be seen) after --accept-changes, or after an edit that does not matter. Each file is replaced atomically,
// the fingerprint last: a crash in between is seen as the same edit again.
Status update_run(const RunDirectory& run, const Plan& plan, const std::string& task_text,
                  FileOps& ops = posix_file_ops());

}  // namespace muster
