#include "launcher/supervisor.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/run_contract.h"

namespace muster::supervise {
namespace {

using nlohmann::json;

// More faults than this tell nothing new; a broken program must not fill memory.
constexpr std::size_t kFaultsMax = 64;

Verdict stopped_before_start() {
  return {Cause::kStopped, -1, "", contract::kMusterStopped, "asked to stop while nothing was running",
          Budget::kNone};
}

}  // namespace

std::string_view run_state_name(RunState state) {
  switch (state) {
    case RunState::kDone:
      return "done";
    case RunState::kStopped:
      return "stopped";
    case RunState::kKilled:
      return "killed";
    case RunState::kLost:
      return "lost";
    case RunState::kFailed:
      break;
  }
  return "failed";
}

std::vector<Action> Supervisor::on(const Event& event) {
  if (phase_ == Phase::kFinished) return {};
  return std::visit([this](const auto& e) { return handle(e); }, event);
}

bool Supervisor::current(int generation) const {
  return generation == generation_ && (phase_ == Phase::kStarting || phase_ == Phase::kRunning);
}

void Supervisor::journal(json event, Actions& actions) const {
  if (lease_lost_) return;  // the journal belongs to somebody else now
  event["generation"] = generation_;
  actions.emplace_back(Journal{std::move(event)});
}

void Supervisor::begin_attempt(Actions& actions) {
  phase_ = Phase::kStarting;
  generation_ = generation_ == 0 ? options_.first_generation : generation_ + 1;
  killed_ = KillReason::kNone;
  kill_on_start_ = KillReason::kNone;
  started_ranks_.clear();
  ready_ranks_.clear();
  finished_event_ = false;
  progress_ = false;
  faults_.clear();
  actions.emplace_back(StartAttempt{generation_});
}

Supervisor::Actions Supervisor::handle(const Begin& /*event*/) {
  Actions actions;
  if (phase_ == Phase::kIdle) begin_attempt(actions);
  return actions;
}

Supervisor::Actions Supervisor::handle(const AttemptStarted& event) {
  if (!current(event.generation) || phase_ != Phase::kStarting) return {};
  phase_ = Phase::kRunning;
  Actions actions;
  if (kill_on_start_ != KillReason::kNone) {
    kill(kill_on_start_, actions);
  } else {
    actions.emplace_back(SetTimer{TimerKind::kStartup, options_.startup_timeout, generation_});
  }
  return actions;
}

Supervisor::Actions Supervisor::handle(const StartFailed& event) {
  if (!current(event.generation)) return {};
  Actions actions;
  const Verdict verdict{Cause::kLauncherError,
                        -1,
                        "",
                        contract::kMusterUnavailable,
                        "the attempt could not be started: " + event.reason,
                        Budget::kLauncherError};
  journal({{"event", contract::event::kAttemptEnded},
           {"attempt", generation_},
           {"verdict", verdict_to_json(verdict)},
           {"evidence", {{"start_error", event.reason}}}},
          actions);
  decide(verdict, false, actions);
  return actions;
}

Supervisor::Actions Supervisor::handle(const RankStarted& event) {
  if (!current(event.generation) || event.rank < 0 || event.rank >= options_.world_size) return {};
  started_ranks_.insert(event.rank);
  // A trainer can be told to stop once it says hello itself; of any other program we only know its start.
  if (event.is_program || !options_.is_trainer) ready_ranks_.insert(event.rank);
  return {};
}

Supervisor::Actions Supervisor::handle(const CheckpointCommitted& event) {
  if (!current(event.generation) || event.step <= committed_step_) return {};
  committed_step_ = event.step;
  progress_ = true;
  return {};
}

Supervisor::Actions Supervisor::handle(const Resumed& event) {
  // What is committed again after a fallback is progress again; `crashes_total` bounds that.
  if (current(event.generation)) committed_step_ = std::min(committed_step_, event.step);
  return {};
}

Supervisor::Actions Supervisor::handle(const FaultReported& event) {
  if (current(event.generation) && faults_.size() < kFaultsMax) faults_.push_back(event.fault);
  return {};
}

Supervisor::Actions Supervisor::handle(const Finished& event) {
  if (current(event.generation)) finished_event_ = true;
  return {};
}

Supervisor::Actions Supervisor::handle(const AttemptExited& event) {
  if (!current(event.generation)) return {};
  Evidence evidence;
  evidence.world_size = options_.world_size;
  evidence.ranks_started = static_cast<int>(started_ranks_.size());
  evidence.needs_finished_event = options_.is_trainer;
  evidence.finished_event = finished_event_;
  evidence.exit = event.exit;
  evidence.stop_asked = stop_asked_;
  evidence.stop_signal = options_.stop_signal;
  evidence.killed = killed_;
  evidence.faults = faults_;
  evidence.launcher_lines = event.launcher_lines;
  const Verdict verdict = judge(evidence);
  const bool progress = progress_ || event.checkpoints_changed;

  Actions actions;
  journal({{"event", contract::event::kAttemptEnded},
           {"attempt", generation_},
           {"verdict", verdict_to_json(verdict)},
           {"progress", progress},
           {"evidence", evidence_to_json(evidence)}},
          actions);
  decide(verdict, progress, actions);
  return actions;
}

Supervisor::Actions Supervisor::handle(const UserStop& event) {
  Actions actions;
  if (stop_asked_) return actions;
  stop_asked_ = true;
  journal({{"event", contract::event::kSignal}, {"signal", event.signal}, {"meaning", "stop"}}, actions);
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kBackoff:
      finish(RunState::kStopped, contract::kMusterStopped, stopped_before_start(), actions);
      break;
    case Phase::kRunning:
      if (killed_ != KillReason::kNone) break;
      if (all_ready()) {
        actions.emplace_back(SendStop{generation_});
        actions.emplace_back(SetTimer{TimerKind::kGrace, options_.grace, generation_});
      } else {
        // Ranks that have not all begun hold nothing to save, and may not handle the signal yet.
        kill(KillReason::kStoppedEarly, actions);
      }
      break;
    case Phase::kStarting:
      kill_on_start_ = KillReason::kStoppedEarly;
      break;
    case Phase::kFinished:
      break;
  }
  return actions;
}

Supervisor::Actions Supervisor::handle(const UserKill& event) {
  Actions actions;
  stop_asked_ = true;
  journal({{"event", contract::event::kSignal}, {"signal", event.signal}, {"meaning", "kill"}}, actions);
  if (phase_ == Phase::kRunning) {
    kill(KillReason::kUser, actions);
  } else if (phase_ == Phase::kStarting) {
    kill_on_start_ = KillReason::kUser;
  } else {
    finish(RunState::kKilled, contract::kMusterKilled, stopped_before_start(), actions);
  }
  return actions;
}

Supervisor::Actions Supervisor::handle(const LeaseLost& /*event*/) {
  Actions actions;
  lease_lost_ = true;
  if (phase_ == Phase::kRunning) {
    kill(KillReason::kLeaseLost, actions);
  } else if (phase_ == Phase::kStarting) {
    kill_on_start_ = KillReason::kLeaseLost;
  } else {
    Verdict verdict;
    verdict.cause = Cause::kStopped;
    verdict.explanation = "another muster took this run over";
    finish(RunState::kLost, contract::kMusterLeaseHeld, verdict, actions);
  }
  return actions;
}

Supervisor::Actions Supervisor::handle(const TimerExpired& event) {
  Actions actions;
  if (event.generation != generation_) return actions;
  switch (event.kind) {
    case TimerKind::kBackoff:
      if (phase_ == Phase::kBackoff) begin_attempt(actions);
      break;
    case TimerKind::kStartup:
      if (phase_ == Phase::kRunning && static_cast<int>(started_ranks_.size()) < options_.world_size) {
        kill(KillReason::kStartupTimeout, actions);
      }
      break;
    case TimerKind::kGrace:
      if (phase_ == Phase::kRunning) kill(KillReason::kGraceOver, actions);
      break;
    case TimerKind::kKill:
      if (phase_ == Phase::kRunning && killed_ != KillReason::kNone) {
        // Starting again beside processes of the old generation could damage the run.
        const Verdict verdict{Cause::kNodeFailure,
                              -1,
                              "",
                              contract::kMusterUnavailable,
                              "processes of this attempt cannot be killed",
                              Budget::kNodeFailure};
        finish(RunState::kFailed, contract::kMusterUnavailable, verdict, actions);
      }
      break;
  }
  return actions;
}

void Supervisor::kill(KillReason reason, Actions& actions) {
  // The first reason stands, except that what a user or a lost lease says outranks our own timers.
  const bool outranks = reason == KillReason::kUser || reason == KillReason::kLeaseLost;
  if (killed_ == KillReason::kNone || outranks) killed_ = reason;
  actions.emplace_back(KillAttempt{generation_});
  actions.emplace_back(SetTimer{TimerKind::kKill, options_.kill_timeout, generation_});
}

std::optional<std::string> Supervisor::charge(const Verdict& verdict, bool progress) {
  if (progress) crashes_in_a_row_ = 0;
  switch (verdict.budget) {
    case Budget::kCrash:
      ++crashes_;
      if (!progress) ++crashes_in_a_row_;
      if (crashes_in_a_row_ >= options_.retry.crashes_without_progress) {
        return fmt::format("{} crashes in a row without a new checkpoint", crashes_in_a_row_);
      }
      if (crashes_ >= options_.retry.crashes_total) return fmt::format("{} crashes", crashes_);
      break;
    case Budget::kNodeFailure:
      if (++node_failures_ >= options_.retry.node_failures)
        return fmt::format("{} node failures", node_failures_);
      break;
    case Budget::kLauncherError:
      if (++launcher_errors_ >= options_.retry.launcher_errors) {
        return fmt::format("{} launcher errors", launcher_errors_);
      }
      break;
    case Budget::kNone:
      break;
  }
  return std::nullopt;
}

void Supervisor::decide(const Verdict& verdict, bool progress, Actions& actions) {
  if (lease_lost_) return finish(RunState::kLost, contract::kMusterLeaseHeld, verdict, actions);
  if (verdict.cause == Cause::kDone) return finish(RunState::kDone, contract::kMusterOk, verdict, actions);
  if (verdict.cause == Cause::kDoNotRetry || verdict.cause == Cause::kNotStored) {
    return finish(RunState::kFailed, verdict.exit_code, verdict, actions);
  }
  if (stop_asked_) {
    if (verdict.cause != Cause::kStopped) {
      return finish(RunState::kStopped, verdict.exit_code, verdict, actions);
    }
    const bool killed = verdict.exit_code == contract::kMusterKilled;
    return finish(killed ? RunState::kKilled : RunState::kStopped, verdict.exit_code, verdict, actions);
  }
  // A program that asks to be started again may do so as often as it gets on, but not for ever in vain.
  Verdict charged = verdict;
  if (verdict.cause == Cause::kStopped && !progress) charged.budget = Budget::kNodeFailure;
  if (const auto exhausted = charge(charged, progress)) {
    charged.explanation += fmt::format("; the run ends after {}", *exhausted);
    return finish(RunState::kFailed, verdict.exit_code, charged, actions);
  }
  fruitless_attempts_ = progress ? 0 : fruitless_attempts_ + 1;
  const auto doubled = options_.backoff_first * (1 << std::min(std::max(fruitless_attempts_ - 1, 0), 10));
  const auto delay = progress ? options_.backoff_first : std::min(doubled, options_.backoff_max);
  phase_ = Phase::kBackoff;
  actions.emplace_back(SetTimer{TimerKind::kBackoff, delay, generation_});
}

void Supervisor::finish(RunState state, int exit_code, const Verdict& verdict, Actions& actions) {
  journal({{"event", contract::event::kRunEnded},
           {"state", run_state_name(state)},
           {"exit_code", exit_code},
           {"verdict", verdict_to_json(verdict)}},
          actions);
  phase_ = Phase::kFinished;
  actions.emplace_back(Finish{state, exit_code, verdict});
}

}  // namespace muster::supervise
