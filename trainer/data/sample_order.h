// Which samples one rank fetches, in the order in which it computes on them. Pure: generators over a
// BatchSchedule, so that how far a loader runs ahead changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trainer/data/batch_schedule.h"

namespace muster::data {

// The samples of one shard of one batch.
struct SampleRequest {
  std::int64_t step = 0;  // the optimizer step that they are for
  std::int64_t batch = 0;
  int shard = 0;
  std::vector<std::int64_t> ids;
};

// The next request; nothing once all have been made. One thread.
using SampleOrder = std::function<std::optional<SampleRequest>()>;

struct OwnShards {  // [begin, end)
  int begin = 0;
  int end = 0;
};

// Where training goes on, and how far.
struct TrainingSpan {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  // the next one of the epoch
  std::int64_t accumulation_steps = 1;
};

// Step by step; within a step shard by shard; within a shard the step's batches.
SampleOrder training_order(BatchSchedule schedule, OwnShards shards, const TrainingSpan& span);

// All batches of one epoch, shard by shard; within a shard batch by batch.
SampleOrder evaluation_order(BatchSchedule schedule, OwnShards shards, std::int64_t step);

}  // namespace muster::data
