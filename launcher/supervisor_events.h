// What the supervisor hears and what it orders: plain values, so that every transition is a unit test.
// Every event and order belongs to a generation (= attempt number); supervisor.h says what follows from what.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/process_launcher.h"
#include "launcher/verdict.h"

namespace muster::supervise {

enum class TimerKind {
  kBackoff,  // the pause before the next attempt
  kStartup,  // every rank must have reported by then
  kGrace,    // from the stop signal to the kill
  kKill      // from the kill to giving up on an attempt that cannot be killed
};

// ---- Events --------------------------------------------------------------------------------------------
struct Begin {};
struct AttemptStarted {
  int generation = 0;
};
struct StartFailed {
  int generation = 0;
  std::string reason;
};
struct RankStarted {  // a hello from the program, or muster exec's report that it becomes the program
  int generation = 0;
  int rank = 0;
  bool is_program = false;  // the hello of a program that speaks the run contract (its handlers are in place)
};
struct CheckpointCommitted {
  int generation = 0;
  std::int64_t step = 0;
};
struct Resumed {  // from an earlier step than the last commit, if newer checkpoints were damaged
  int generation = 0;
  std::int64_t step = 0;
};
struct FaultReported {
  int generation = 0;
  RankFault fault;
};
struct Finished {
  int generation = 0;
};
struct AttemptExited {  // nothing of the attempt is left
  int generation = 0;
  ExitStatus exit;
  std::vector<std::string> launcher_lines;
  bool checkpoints_changed = false;
};
struct UserStop {
  std::string signal;
};
struct UserKill {
  std::string signal;
};
struct TimerExpired {
  TimerKind kind = TimerKind::kBackoff;
  int generation = 0;
};
struct LeaseLost {
  std::string reason;
};
using Event =
    std::variant<Begin, AttemptStarted, StartFailed, RankStarted, CheckpointCommitted, Resumed, FaultReported,
                 Finished, AttemptExited, UserStop, UserKill, TimerExpired, LeaseLost>;

// ---- Actions -------------------------------------------------------------------------------------------
struct StartAttempt {
  int generation = 0;
};
struct SendStop {
  int generation = 0;
};
struct KillAttempt {
  int generation = 0;
};
struct SetTimer {  // replaces a running timer of that kind
  TimerKind kind = TimerKind::kBackoff;
  std::chrono::milliseconds duration{};
  int generation = 0;
};
struct Journal {  // always durable
  nlohmann::json event;
};
enum class RunState { kDone, kFailed, kStopped, kKilled, kLost };
struct Finish {
  RunState state = RunState::kDone;
  int exit_code = 0;
  Verdict verdict;
};
using Action = std::variant<StartAttempt, SendStop, KillAttempt, SetTimer, Journal, Finish>;

std::string_view run_state_name(RunState state);

}  // namespace muster::supervise
