// Which samples each virtual shard of each batch gets: a pure function of (dataset size, global batch size,
// seed, shards, epoch, batch, shard). Nothing of it depends on ranks, and nothing has to be saved but where
// we are.
//
// Each epoch is a permutation of all samples (Fisher–Yates with Philox numbers), cut into batches of
// batch_size; the last batch may be smaller (ragged). A batch of m samples gives shard s of V the positions
// [m·s/V, m·(s+1)/V): sizes differ by at most one, and shards of a small batch may be empty.
// Threads: one at a time (the current epoch's permutation is cached).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster::data {

enum class Order : std::uint8_t { kShuffled, kSequential };  // sequential: for evaluation

class BatchSchedule {
 public:
  // samples, batch_size and shards are at least 1.
  BatchSchedule(std::int64_t samples, std::int64_t batch_size, std::uint64_t seed, int shards,
                Order order = Order::kShuffled);

  std::int64_t batches_per_epoch() const { return (samples_ + batch_size_ - 1) / batch_size_; }
  int shards() const { return shards_; }

  // Samples of one batch, all shards together.
  std::int64_t batch_samples(std::int64_t batch) const;
  // The largest number of samples that a shard can get.
  std::int64_t shard_samples_max() const { return (batch_size_ + shards_ - 1) / shards_; }

  // Ids of the samples of one shard; valid until the next call with another epoch.
  std::span<const std::int64_t> samples(std::int64_t epoch, std::int64_t batch, int shard);

 private:
  void permute(std::int64_t epoch);

  std::int64_t samples_;
  std::int64_t batch_size_;
  std::uint64_t seed_;
  int shards_;
  Order order_;
  std::int64_t epoch_ = -1;  // whose permutation is cached
  std::vector<std::int64_t> permutation_;
};

// The consecutive batches that one optimizer step consumes, [begin, end) of an epoch, and their samples, by
// whose number the step's gradient is divided.
struct StepBatches {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t samples = 0;
};

// `accumulation_steps` batches from `begin`; fewer at the end of the epoch.
StepBatches step_batches(const BatchSchedule& schedule, std::int64_t begin, std::int64_t accumulation_steps);

// Optimizer steps of one epoch.
std::int64_t steps_per_epoch(const BatchSchedule& schedule, std::int64_t accumulation_steps);

}  // namespace muster::data
