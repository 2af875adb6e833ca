// The supervisor: a pure state machine. Events in, actions out; it reads no clock, file or socket, so every
// transition is a unit test. The run loop (run_loop.h) carries the actions out.
//
// Progress, which resets the crash budget, is a newly committed checkpoint: a `checkpoint` event with a
// higher step than any before in this run. Programs that know nothing of muster send no events; for them an
// attempt made progress if it changed anything in the run's checkpoint directory (AttemptExited says so).
//
// Every event belongs to a generation (= attempt number). Events of another generation change nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "launcher/plan.h"
#include "launcher/process_launcher.h"
#include "launcher/supervisor_events.h"
#include "launcher/verdict.h"

namespace muster::supervise {

struct Options {
  int world_size = 1;
  bool is_trainer = false;
  int stop_signal = 0;
  RetryBudgets retry;
  std::chrono::milliseconds grace{30000};
  std::chrono::milliseconds startup_timeout{120000};
  std::chrono::milliseconds kill_timeout{60000};
  std::chrono::milliseconds backoff_first{1000};  // doubled for each attempt without progress
  std::chrono::milliseconds backoff_max{60000};
  int first_generation = 1;
  std::int64_t last_checkpoint_step = -1;  // of earlier attempts of this run
};

class Supervisor {
 public:
  explicit Supervisor(const Options& options)
      : options_(options), committed_step_(options_.last_checkpoint_step) {}

  std::vector<Action> on(const Event& event);

  int generation() const { return generation_; }
  bool stop_asked() const { return stop_asked_; }
  bool finished() const { return phase_ == Phase::kFinished; }
  // The newest committed step of the run that was not found damaged, -1 if none.
  std::int64_t committed_step() const { return committed_step_; }

 private:
  enum class Phase { kIdle, kBackoff, kStarting, kRunning, kFinished };
  using Actions = std::vector<Action>;

  Actions handle(const Begin& event);
  Actions handle(const AttemptStarted& event);
  Actions handle(const StartFailed& event);
  Actions handle(const RankStarted& event);
  Actions handle(const CheckpointCommitted& event);
  Actions handle(const Resumed& event);
  Actions handle(const FaultReported& event);
  Actions handle(const Finished& event);
  Actions handle(const AttemptExited& event);
  Actions handle(const UserStop& event);
  Actions handle(const UserKill& event);
  Actions handle(const TimerExpired& event);
  Actions handle(const LeaseLost& event);

  bool current(int generation) const;
  bool all_ready() const { return static_cast<int>(ready_ranks_.size()) == options_.world_size; }
  void begin_attempt(Actions& actions);
  void kill(KillReason reason, Actions& actions);
  void decide(const Verdict& verdict, bool progress, Actions& actions);
  // Charges the budget; the reason why the run must end, or nothing if it may go on.
  std::optional<std::string> charge(const Verdict& verdict, bool progress);
  void finish(RunState state, int exit_code, const Verdict& verdict, Actions& actions);
  void journal(nlohmann::json event, Actions& actions) const;

  Options options_;
  Phase phase_ = Phase::kIdle;
  int generation_ = 0;
  bool stop_asked_ = false;
  bool lease_lost_ = false;
  // of this attempt:
  KillReason killed_ = KillReason::kNone;
  KillReason kill_on_start_ = KillReason::kNone;  // what came between the order to start and the start
  std::set<int> started_ranks_;
  std::set<int> ready_ranks_;
  bool finished_event_ = false;
  bool progress_ = false;
  std::vector<RankFault> faults_;
  // of this run:
  std::int64_t committed_step_ = -1;
  int crashes_in_a_row_ = 0;
  int crashes_ = 0;
  int node_failures_ = 0;
  int launcher_errors_ = 0;
  int fruitless_attempts_ = 0;
};

}  // namespace muster::supervise
