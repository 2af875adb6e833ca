// Whole training runs in one process: ranks are threads, checkpoints live in memory, data is made up.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/event_sink.h"
#include "common/status.h"
#include "trainer/checkpoint/memory_store.h"
#include "trainer/data/dataset.h"
#include "trainer/options.h"
#include "trainer/train_loop.h"

namespace muster::testing {

// Separable clusters with noise; any size. A sample listed in `poisoned` is all NaN.
class ClusterDataset final : public data::Dataset {
 public:
  ClusterDataset(std::int64_t samples, std::uint64_t seed, std::vector<std::int64_t> poisoned = {},
                 std::vector<std::int64_t> sample_shape = {12});
  std::int64_t size() const override { return samples_; }
  const std::vector<std::int64_t>& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return 4; }
  const std::string& fingerprint() const override { return fingerprint_; }
  Status fetch(std::span<const std::int64_t> ids, float* inputs, std::int32_t* labels) const override;

 private:
  std::int64_t samples_;
  std::uint64_t seed_;
  std::vector<std::int64_t> poisoned_;
  std::vector<std::int64_t> shape_;
  std::string fingerprint_;
};

class RecordingSink final : public EventSink {
 public:
  void emit(const nlohmann::json& event) override;
  std::vector<nlohmann::json> named(std::string_view name) const;

 private:
  mutable std::mutex mutex_;
  std::vector<nlohmann::json> events_;
};

using StoreDecorator =
    std::function<std::unique_ptr<checkpoint::CheckpointStore>(std::unique_ptr<checkpoint::CheckpointStore>)>;

// What a rank trains on instead of the samples it would get.
using DataDecorator =
    std::function<std::shared_ptr<const data::Dataset>(int rank, std::shared_ptr<const data::Dataset>)>;

struct TrainingRun {
  TrainerOptions options;
  int ranks = 2;
  std::int32_t generation = 1;
  std::int64_t samples = 150;
  std::vector<std::int64_t> sample_shape = {12};
  std::vector<std::int64_t> poisoned;
  // Raises the stop flag of this rank when the given step is reported by rank 0's samples event.
  int stop_rank = -1;
  std::int64_t stop_at_step = -1;
  StoreDecorator decorate;      // null: the plain store
  DataDecorator decorate_data;  // null: the plain training data
  // Opens another store than the one in memory; null: that one.
  std::function<Result<std::unique_ptr<checkpoint::CheckpointStore>>(checkpoint::Group)> open_store;
  RequestedSaves* requested_saves = nullptr;                  // rank 0's; null: nobody asks
  std::function<void(const nlohmann::json& event)> on_event;  // of any rank, on its thread; null: nothing
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

struct TrainingResult {
  std::vector<Result<TrainOutcome>> outcomes;  // one a rank
  std::shared_ptr<RecordingSink> events;
};

// Runs all ranks to their end against the checkpoints in `backing`.
TrainingResult run_training(const TrainingRun& run,
                            const std::shared_ptr<checkpoint::MemoryCheckpoints>& backing);

// Dropout, AdamW, warm-up and a ragged last batch: everything that a restart could get wrong.
TrainerOptions demanding_options();

// Name → elements of the newest checkpoint, parameters and optimizer state.
std::map<std::string, std::vector<float>> newest_tensors(
    const std::shared_ptr<checkpoint::MemoryCheckpoints>& backing);

}  // namespace muster::testing
