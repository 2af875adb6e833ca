// SEAM: where checkpoints live. Implementations: HDF5 files on a shared file system, memory (tests).
//
// Storing never assumes that every rank holds everything: each rank passes row slices of named tensors, and
// each rank reads whichever slices it wants, whatever the rank count that wrote them. Methods that are marked
// collective are called by all ranks of the attempt, and return the same outcome on all of them: a rank-local
// I/O error becomes everybody's error.
//
// Saving goes on in the background: begin_save() copies the slices and returns, a thread of each rank does
// what takes long. That thread talks to no other rank. The ranks find out by their own means (training adds
// up busy() in a collective that it makes anyway) that none of them is busy, and then take the save to its
// next stage together, with advance(). Threads: all methods belong to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster::checkpoint {

// Rows [row_begin, row_end) along dimension 0 of a tensor of global_shape, row-major fp32.
// A scalar has shape {1}. A rank passes at most one slice of a tensor; it may pass none, or one without rows.
// Names are UTF-8, with '/' between parts; "training_state" and "training_state_json" are taken.
struct TensorSlice {
  std::string name;  // "parameters/layer0.weight", "optimizer/layer0.weight/exp_avg"
  std::vector<std::int64_t> global_shape;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  const float* data = nullptr;  // (row_end - row_begin) * product(global_shape[1:]) elements
};

// The rank-to-rank help that a store needs: one text per rank, in rank order, on every rank.
struct Group {
  int rank = 0;
  int size = 1;
  std::function<Result<std::vector<std::string>>(std::string_view mine)> all_gather_text;
};

struct SaveRequest {
  std::int64_t step = 0;
  // An object with everything but tensors: step, epoch, data position, RNG, configuration, … Finite numbers
  // and UTF-8 only. Rank 0's is stored.
  nlohmann::json state;
  std::optional<double> metric;  // larger is better; decides "best". Rank 0's counts; NaN is none
  std::span<const TensorSlice> slices;
  std::int32_t generation = 0;  // names the temporary directory; an older generation must not publish
};

struct SaveReport {
  std::string path;
  std::int64_t bytes = 0;
  double seconds = 0;  // from the beginning of the save to its end
  // What went wrong after the checkpoint was committed: old checkpoints that could not be removed.
  std::vector<std::string> warnings;
};

class LoadedCheckpoint {
 public:
  virtual ~LoadedCheckpoint() = default;
  virtual std::string path() const = 0;
  virtual const nlohmann::json& state() const = 0;
  // Names of all tensors, sorted.
  virtual std::vector<std::string> tensor_names() const = 0;
  virtual Result<std::vector<std::int64_t>> shape(std::string_view name) const = 0;
  // Local, not collective. Elements are checked against their hashes as they were loaded.
  virtual Status read_rows(std::string_view name, std::int64_t row_begin, std::int64_t row_end,
                           float* out) = 0;
};

struct Quarantined {
  std::string path;  // where it is now
  std::string reason;
};

struct LoadOutcome {
  std::unique_ptr<LoadedCheckpoint> checkpoint;  // null: there is none, start from the beginning
  std::vector<Quarantined> quarantined;          // damaged ones met on the way
  // There is none, but there was: the newest one in quarantine.
  std::optional<Quarantined> lost;
};

class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;  // waits for this rank's thread

  // Collective. At most one save is in flight. The slices are copied: the caller may change its tensors at
  // once. On failure (kInvalidArgument, kMismatch: the requests make no sense) nothing was begun.
  virtual Status begin_save(const SaveRequest& request) = 0;
  // A save is in flight. The same on all ranks.
  virtual bool saving() const = 0;
  // Local: this rank's thread is at work.
  virtual bool busy() const = 0;
  // Collective; while a save is in flight and no rank is busy. Nothing: there is more to do in the
  // background. A report: the checkpoint is published, atomically, and what the retention (last K plus best)
  // no longer needs is removed. An error: the save has failed and left nothing behind, as far as the disk
  // lets us; the next one may work.
  virtual Result<std::optional<SaveReport>> advance() = 0;
  // Collective. Waits for the save in flight, by rank 0's clock, as advance() would end it.
  // kDeadlineExceeded, naming the ranks that are still busy: it stays in flight.
  virtual Result<SaveReport> finish_save(std::chrono::milliseconds timeout) = 0;

  // Collective. The last committed checkpoint that verifies. Damaged ones are put into quarantine and the one
  // before is tried. Not while a save is in flight.
  virtual Result<LoadOutcome> load_latest() = 0;
};

// Collective. Saves and waits for it.
inline Result<SaveReport> save_and_wait(CheckpointStore& store, const SaveRequest& request,
                                        std::chrono::milliseconds timeout) {
  if (auto begun = store.begin_save(request); !begun) return tl::unexpected<Error>(std::move(begun).error());
  return store.finish_save(timeout);
}

}  // namespace muster::checkpoint
