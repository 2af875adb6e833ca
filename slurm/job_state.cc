#include "slurm/job_state.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace muster::slurm {

namespace {

enum class Phase {
  kWaiting,
  kHeld,
  kActive,
  kEnded,
  kNodesLost  // ended, unless it is requeued
};

struct StateWords {
  JobState state;
  std::string_view name;
  std::string_view code;  // empty: none is known
  Phase phase;
};

constexpr std::array kStates{
    StateWords{JobState::kBootFail, "BOOT_FAIL", "BF", Phase::kNodesLost},
    StateWords{JobState::kCancelled, "CANCELLED", "CA", Phase::kEnded},
    StateWords{JobState::kCompleted, "COMPLETED", "CD", Phase::kEnded},
    StateWords{JobState::kCompleting, "COMPLETING", "CG", Phase::kActive},
    StateWords{JobState::kConfiguring, "CONFIGURING", "CF", Phase::kActive},
    StateWords{JobState::kDeadline, "DEADLINE", "DL", Phase::kEnded},
    StateWords{JobState::kFailed, "FAILED", "F", Phase::kEnded},
    StateWords{JobState::kLaunchFailed, "LAUNCH_FAILED", "", Phase::kNodesLost},
    StateWords{JobState::kNodeFail, "NODE_FAIL", "NF", Phase::kNodesLost},
    StateWords{JobState::kOutOfMemory, "OUT_OF_MEMORY", "OOM", Phase::kEnded},
    StateWords{JobState::kPending, "PENDING", "PD", Phase::kWaiting},
    StateWords{JobState::kPreempted, "PREEMPTED", "PR", Phase::kNodesLost},
    StateWords{JobState::kReconfigFail, "RECONFIG_FAIL", "", Phase::kEnded},
    StateWords{JobState::kRequeued, "REQUEUED", "RQ", Phase::kWaiting},
    StateWords{JobState::kRequeueFed, "REQUEUE_FED", "RF", Phase::kWaiting},
    StateWords{JobState::kRequeueHold, "REQUEUE_HOLD", "RH", Phase::kHeld},
    StateWords{JobState::kResizing, "RESIZING", "RS", Phase::kActive},
    StateWords{JobState::kReservationDeleted, "RESV_DEL_HOLD", "RD", Phase::kHeld},
    StateWords{JobState::kRevoked, "REVOKED", "RV", Phase::kEnded},
    StateWords{JobState::kRunning, "RUNNING", "R", Phase::kActive},
    StateWords{JobState::kSignaling, "SIGNALING", "SI", Phase::kActive},
    StateWords{JobState::kSpecialExit, "SPECIAL_EXIT", "SE", Phase::kHeld},
    StateWords{JobState::kStageOut, "STAGE_OUT", "SO", Phase::kActive},
    StateWords{JobState::kStopped, "STOPPED", "ST", Phase::kActive},
    StateWords{JobState::kSuspended, "SUSPENDED", "S", Phase::kActive},
    StateWords{JobState::kTimeout, "TIMEOUT", "TO", Phase::kEnded},
};

const StateWords& words_of(JobState state) {
  return *std::find_if(kStates.begin(), kStates.end(),
                       [&](const StateWords& words) { return words.state == state; });
}

}  // namespace

std::optional<JobState> parse_job_state(std::string_view text) {
  std::string upper(text.substr(0, text.find(' ')));  // CANCELLED by 1000
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (upper.ends_with('+')) {
    upper.pop_back();
    const auto begins_so = [&](const StateWords& words) { return words.name.starts_with(upper); };
    if (upper.empty() || std::count_if(kStates.begin(), kStates.end(), begins_so) != 1) return {};
    return std::find_if(kStates.begin(), kStates.end(), begins_so)->state;
  }
  if (upper.empty()) return {};
  const auto match = std::find_if(kStates.begin(), kStates.end(), [&](const StateWords& words) {
    return words.name == upper || words.code == upper;
  });
  if (match == kStates.end()) return {};
  return match->state;
}

std::string_view job_state_name(JobState state) { return words_of(state).name; }

bool is_final(JobState state, bool may_be_requeued) {
  const Phase phase = words_of(state).phase;
  return phase == Phase::kEnded || (phase == Phase::kNodesLost && !may_be_requeued);
}

bool is_active(JobState state) { return words_of(state).phase == Phase::kActive; }

bool is_waiting(JobState state) { return words_of(state).phase == Phase::kWaiting || is_held(state); }

bool is_held(JobState state) { return words_of(state).phase == Phase::kHeld; }

}  // namespace muster::slurm
