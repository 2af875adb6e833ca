// Between the train loop and a checkpoint store: what a checkpoint holds, and when one is made. Threads: one.
//
// Saving goes on in the background: a step is held up only while the tensors are copied. At most one save is
// in flight; one that falls due meanwhile begins as soon as that one has ended. Only a best checkpoint does
// not wait: its parameters exist now, so training waits for the save in flight. What fails is reported as an
// event, and training goes on: the next save may work.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/event_sink.h"
#include "common/status.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/requested_saves.h"
#include "trainer/training_state.h"

namespace muster {

// A whole tensor, the same on every rank, row-major fp32, not owned.
struct NamedTensor {
  std::string name;  // "parameters/…", "optimizer/…"
  std::vector<std::int64_t> shape;
  float* data = nullptr;
};

// Everything that identifies who wrote a checkpoint.
struct CheckpointContext {
  int rank = 0;
  int world_size = 1;
  std::int32_t generation = 1;
  nlohmann::json configuration;  // to_json(TrainerOptions)
  nlohmann::json code;           // version, executable hash, device library, ISA, threads
};

using SteadyNow = std::function<std::chrono::steady_clock::time_point()>;

struct SavePolicy {
  std::int64_t every_steps = 0;                                 // 0: not by steps
  std::chrono::duration<double> every{0};                       // 0: not by time
  bool background = true;                                       // false: training waits for each save
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};  // of one wait for a save
  // Between failures: how often to save is told once it is known how long that takes; 0: not.
  std::chrono::duration<double> expected_mtbf{0};
  bool automatic = false;  // and `every` becomes what is told
  SteadyNow now = std::chrono::steady_clock::now;
};

// Where training stands after a step.
struct SavePoint {
  const TrainingState& state;
  std::optional<double> metric;  // if it was evaluated just now
  bool is_best = false;          // and is to be kept
};

class Checkpointer {
 public:
  // Neither `store` nor `events` nor `requested` is owned, nor is the tensors' data.
  Checkpointer(checkpoint::CheckpointStore& store, EventSink& events, RequestedSaves& requested,
               CheckpointContext context, std::vector<NamedTensor> tensors, SavePolicy policy);

  // Collective. Fills tensors and state from the last committed checkpoint. False: there is none.
  // kInvalidArgument if it was made by a configuration that this one cannot continue; kNotStored if
  // nothing can be stored there (read-only, no permission, no space); kIo if something could not be read: a
  // later attempt may.
  Result<bool> restore(TrainingState& state);

  // What a rank adds to a step's totals. This rank wants a save (rank 0 keeps time) …
  bool asks_for_save() const;
  // … and its thread is busy with the one in flight.
  bool busy() const { return store_.busy(); }

  // Collective, after each step but the last: some rank asked; some rank was busy when the step began.
  // An error ends the run: the store says that this attempt must not write, or ranks cannot be reached.
  Status after_step(const SavePoint& point, bool asked, bool some_rank_busy);

  // Collective. Saves this state and waits for it. kNotStored if that does not work: with `persistent` only
  // after trying again, with pauses, for the policy's timeout.
  Status save_last(const SavePoint& point, bool persistent);

 private:
  using Clock = std::chrono::steady_clock;

  Status check_configuration(const nlohmann::json& stored) const;
  void report_changes(const nlohmann::json& stored);

  Status begin(const SavePoint& point);
  Status advance();
  Status finish();
  Status save_and_wait(const SavePoint& point);
  bool tolerable(const Error& error) const;
  Status tolerate(const Status& outcome);
  tl::unexpected<Error> not_stored(std::int64_t step, const Error& error);
  void report_success(const checkpoint::SaveReport& report);
  void report_failure(const Error& error, std::optional<std::chrono::milliseconds> retry_in);
  void report_slowness();
  void learn_duration(double save_s);

  checkpoint::CheckpointStore& store_;
  EventSink& events_;
  RequestedSaves& requested_;
  CheckpointContext context_;
  std::vector<NamedTensor> tensors_;
  SavePolicy policy_;
  bool due_ = false;
  std::string last_path_;          // of the last committed checkpoint; empty: none
  double save_s_ = 0;              // how long a save takes; 0: not known yet
  double advised_interval_s_ = 0;  // as told last; 0: never
  // Of the save in flight, or the last one:
  Clock::time_point last_begin_;
  std::int64_t step_ = 0;
  std::int64_t steps_meanwhile_ = 0;
  Clock::duration held_up_{};          // how long it kept the main thread
  std::vector<std::string> requests_;  // that it answers
  bool slowness_told_ = false;
};

// The rows of each tensor that `rank` of `size` writes: an even share, [rows·r/n, rows·(r+1)/n).
std::vector<checkpoint::TensorSlice> slices_of_rank(const std::vector<NamedTensor>& tensors, int rank,
                                                    int size);

}  // namespace muster
