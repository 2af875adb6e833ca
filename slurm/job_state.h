// The states of a job, in all words that squeue, sacct and scontrol use for them. Pure.
//
// A state that a job is seen in is rarely the last word: a preempted job is requeued a moment later, a
// completing one still holds its nodes, and a requeued one starts over. The functions below say what a caller
// may conclude.
#pragma once

#include <optional>
#include <string_view>

namespace muster::slurm {

enum class JobState {
  kBootFail,
  kCancelled,
  kCompleted,
  kCompleting,
  kConfiguring,
  kDeadline,
  kFailed,
  kLaunchFailed,
  kNodeFail,
  kOutOfMemory,
  kPending,
  kPreempted,
  kReconfigFail,
  kRequeued,
  kRequeueFed,
  kRequeueHold,
  kResizing,
  kReservationDeleted,  // held: its reservation is gone
  kRevoked,             // a sibling on another cluster of a federation started
  kRunning,
  kSignaling,
  kSpecialExit,  // requeued and held, since its exit code is one of the site's special ones
  kStageOut,
  kStopped,
  kSuspended,
  kTimeout,
};

// Reads "RUNNING", "R", "CANCELLED by 1000", sacct's shortened "CANCELLED+", in upper or lower case. Nothing
// for other words: a newer Slurm has more, so an unknown state is not to be taken for any end.
std::optional<JobState> parse_job_state(std::string_view text);

std::string_view job_state_name(JobState state);  // Slurm's: NODE_FAIL

// The job has ended, and no further start of it is to be expected. A job that lost its nodes (PREEMPTED,
// NODE_FAIL, BOOT_FAIL, LAUNCH_FAILED) is requeued by Slurm if it may be (--requeue, JobRequeue), which takes
// it through these states: with `may_be_requeued` they are not final.
bool is_final(JobState state, bool may_be_requeued);
// The job has nodes, even if its processes are not yet, or no longer, all there.
bool is_active(JobState state);
// The job waits for nodes, perhaps for ever (is_held).
bool is_waiting(JobState state);
// Somebody must release it.
bool is_held(JobState state);

}  // namespace muster::slurm
