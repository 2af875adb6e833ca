// What became of a run, computed from its journal and from whether somebody holds its lease: nothing else.
// summarize() is pure; it reads journals of older and newer versions, so a field that is missing or of
// another type is left out, never an error.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/process_identity.h"
#include "launcher/run_directory.h"

namespace muster {

enum class RunCondition {
  kRunning,      // a live lease, and the journal does not say that the run ended
  kCompleted,    // the task is done
  kStopped,      // stopped as asked, or killed by a second signal: the same command goes on
  kFailed,       // a retry budget is used up, or starting again cannot help
  kInterrupted,  // nobody holds the lease and the journal just breaks off: the same command goes on
};
std::string_view condition_name(RunCondition condition);  // RUNNING …

struct AttemptSummary {
  int number = 0;
  std::string started;  // ISO 8601; empty: unknown
  std::string ended;    // empty: it has not, or nobody saw it
  std::vector<std::string> hosts;
  std::optional<std::int64_t> resumed_step;  // it went on from this step; empty: began anew, or unknown
  std::string cause;                         // of the verdict; empty: no verdict
  std::string explanation;
  std::string budget;  // which retry budget paid
  std::optional<int> rank;
  std::string node;
};

struct RunSummary {
  RunCondition condition = RunCondition::kInterrupted;
  std::string started;  // first start, ISO 8601
  std::string ended;    // empty unless it ended
  std::optional<int> exit_code;
  std::vector<AttemptSummary> attempts;
  std::optional<std::int64_t> step;  // of the state that would be continued or is being trained
  std::optional<std::int64_t> total_steps;
  // The last events of their kind (common/run_contract.h); null if there was none.
  nlohmann::json last_step;
  nlohmann::json last_evaluation;
  nlohmann::json last_checkpoint;
  nlohmann::json result;  // what the program gave in its `finished` event
  int checkpoints_quarantined = 0;
  int checkpoints_failed = 0;
};

RunSummary summarize(const std::vector<nlohmann::json>& events, bool lease_is_live);

// A run's summary with what the directory itself tells.
struct RunReport {
  RunDirectory run;
  RunInfo info;
  RunSummary summary;
  std::optional<ProcessIdentity> holder;
  bool journal_torn = false;
};
// kNotFound: no run directory. A run without a journal yet has an empty summary.
Result<RunReport> report_run(const RunDirectory& run);

nlohmann::json report_to_json(const RunReport& report);

}  // namespace muster
