// How often an attempt may end for a cause before the run fails. A committed step of progress resets
// `crashes_without_progress`; preemptions and node losses never use it up.
#pragma once

namespace muster {

struct RetryBudgets {
  int crashes_without_progress =
      3;  // the third crash in a row without a newly committed checkpoint stops the run
  int crashes_total = 20;
  int node_failures = 20;  // kExitRetry, lost nodes, a launcher that was killed
  int launcher_errors = 3;
  bool operator==(const RetryBudgets&) const = default;
};

}  // namespace muster
