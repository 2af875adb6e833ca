#include "trainer/data/batch_schedule.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "trainer/random/philox.h"

namespace muster::data {

BatchSchedule::BatchSchedule(std::int64_t samples, std::int64_t batch_size, std::uint64_t seed, int shards,
                             Order order)
    : samples_(samples), batch_size_(batch_size), seed_(seed), shards_(shards), order_(order) {
  assert(samples >= 1 && batch_size >= 1 && shards >= 1);
}

std::int64_t BatchSchedule::batch_samples(std::int64_t batch) const {
  assert(batch >= 0 && batch < batches_per_epoch());
  return std::min(batch_size_, samples_ - batch * batch_size_);
}

std::span<const std::int64_t> BatchSchedule::samples(std::int64_t epoch, std::int64_t batch, int shard) {
  assert(epoch >= 0 && shard >= 0 && shard < shards_);
  if (epoch != epoch_) permute(epoch);
  const std::int64_t count = batch_samples(batch);
  const std::int64_t begin = count * shard / shards_;
  const std::int64_t end = count * (shard + 1) / shards_;
  return std::span(permutation_)
      .subspan(static_cast<std::size_t>(batch * batch_size_ + begin), static_cast<std::size_t>(end - begin));
}

void BatchSchedule::permute(std::int64_t epoch) {
  permutation_.resize(static_cast<std::size_t>(samples_));
  std::iota(permutation_.begin(), permutation_.end(), std::int64_t{0});
  epoch_ = epoch;
  if (order_ == Order::kSequential) return;
  random::Sequence numbers(random::Stream{.key = random::make_key(seed_, random::Purpose::kShuffle),
                                          .step = static_cast<std::uint64_t>(epoch)});
  for (std::size_t last = permutation_.size() - 1; last > 0; --last) {
    std::swap(permutation_[last], permutation_[numbers.next_below(last + 1)]);
  }
}

StepBatches step_batches(const BatchSchedule& schedule, std::int64_t begin, std::int64_t accumulation_steps) {
  assert(begin >= 0 && begin < schedule.batches_per_epoch() && accumulation_steps >= 1);
  StepBatches step{begin, begin, 0};
  while (step.end < schedule.batches_per_epoch() && step.end - step.begin < accumulation_steps) {
    step.samples += schedule.batch_samples(step.end);
    ++step.end;
  }
  return step;
}

std::int64_t steps_per_epoch(const BatchSchedule& schedule, std::int64_t accumulation_steps) {
  return (schedule.batches_per_epoch() + accumulation_steps - 1) / accumulation_steps;
}

}  // namespace muster::data
