// Training from the first step (or the last checkpoint) to the end, or to a stop that somebody asked for.
//
// The result is a pure function of the options and the data when options.reproducible: not of the number of
// ranks, nor of how often the run was killed and resumed. Collective over the communicator; one thread a
// rank.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/event_sink.h"
#include "common/status.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/comm/communicator.h"
#include "trainer/data/dataset.h"
#include "trainer/device/device.h"
#include "trainer/options.h"
#include "trainer/requested_saves.h"

namespace muster {

struct TrainerParts {
  comm::Communicator& communicator;
  device::Device& device;
  std::function<Result<data::DatasetPair>()> load_data;  // called on every rank
  checkpoint::CheckpointStore* store = nullptr;          // null: no checkpoints
  EventSink& events;                                     // every rank's
  // Not zero once somebody asked this rank to stop: the signal's number.
  const std::atomic<int>& stop_signal;
  RequestedSaves& requested_saves;  // rank 0's are heeded
  // By which rank 0 saves every so many seconds.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

struct TrainOutcome {
  bool stopped = false;  // before the end, as asked; a checkpoint holds everything if there is a store
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  std::optional<double> loss;      // of the last evaluation
  std::optional<double> accuracy;  // likewise
  std::string early_stop;          // why it ended before its last step; empty: it did not
};

// Errors are the same on every rank as far as ranks can still be reached. kInvalidArgument, kNotFound,
// kCorrupt: bad options or data; kPeerLost, kMismatch, kDeadlineExceeded, kAborted: see communicator.h;
// kNotStored: the last state could not be saved, or no checkpoint can be stored at all.
Result<TrainOutcome> train(const TrainerOptions& options, TrainerParts parts);

}  // namespace muster
