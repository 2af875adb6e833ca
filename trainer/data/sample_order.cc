#include "trainer/data/sample_order.h"

#include <utility>

namespace muster::data {
namespace {

SampleRequest make_request(BatchSchedule& schedule, std::int64_t step, std::int64_t epoch, std::int64_t batch,
                           int shard) {
  const auto ids = schedule.samples(epoch, batch, shard);
  return {step, batch, shard, {ids.begin(), ids.end()}};
}

class TrainingOrder {
 public:
  TrainingOrder(BatchSchedule schedule, OwnShards shards, const TrainingSpan& span)
      : schedule_(std::move(schedule)), shards_(shards), at_(span) {}

  std::optional<SampleRequest> operator()() {
    if (next_ == planned_.size()) {
      if (at_.step >= at_.total_steps) return std::nullopt;
      plan_step();
    }
    return std::move(planned_[next_++]);
  }

 private:
  void plan_step() {
    planned_.clear();
    next_ = 0;
    const StepBatches batches = step_batches(schedule_, at_.batch, at_.accumulation_steps);
    for (int shard = shards_.begin; shard < shards_.end; ++shard) {
      for (std::int64_t batch = batches.begin; batch < batches.end; ++batch)
        planned_.push_back(make_request(schedule_, at_.step, at_.epoch, batch, shard));
    }
    ++at_.step;
    at_.batch = batches.end;
    if (at_.batch < schedule_.batches_per_epoch()) return;
    at_.batch = 0;
    ++at_.epoch;
  }

  BatchSchedule schedule_;
  OwnShards shards_;
  TrainingSpan at_;
  std::vector<SampleRequest> planned_;  // of the step under way
  std::size_t next_ = 0;
};

class EvaluationOrder {
 public:
  EvaluationOrder(BatchSchedule schedule, OwnShards shards, std::int64_t step)
      : schedule_(std::move(schedule)), shards_(shards), step_(step) {}

  std::optional<SampleRequest> operator()() {
    if (batch_ == schedule_.batches_per_epoch()) {
      batch_ = 0;
      ++shards_.begin;
    }
    if (shards_.begin >= shards_.end) return std::nullopt;
    return make_request(schedule_, step_, 0, batch_++, shards_.begin);
  }

 private:
  BatchSchedule schedule_;
  OwnShards shards_;  // that are left
  std::int64_t step_;
  std::int64_t batch_ = 0;
};

}  // namespace

SampleOrder training_order(BatchSchedule schedule, OwnShards shards, const TrainingSpan& span) {
  return TrainingOrder(std::move(schedule), shards, span);
}

SampleOrder evaluation_order(BatchSchedule schedule, OwnShards shards, std::int64_t step) {
  return EvaluationOrder(std::move(schedule), shards, step);
}

}  // namespace muster::data
