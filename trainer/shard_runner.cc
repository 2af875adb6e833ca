#include "trainer/shard_runner.h"

#include <array>
#include <numeric>

namespace muster {
namespace {

// Buckets beside the gradients', in CollectiveOptions::bucket.
constexpr std::int32_t kTotalsBucket = -1;
constexpr std::int32_t kEvaluationBucket = -2;

// Leaves of the tree of totals: loss_sum, correct, samples, stop, save, saving.
constexpr std::size_t kTotals = 6;
using Leaf = std::array<double, kTotals>;

Leaf leaf_of(const models::ShardResult& result) {
  return {result.loss_sum, static_cast<double>(result.correct), static_cast<double>(result.samples), 0, 0, 0};
}

}  // namespace

ShardRunner::ShardRunner(comm::Communicator& communicator, device::Device& device, Replica& replica,
                         int num_shards, std::chrono::milliseconds timeout)
    : communicator_(communicator),
      device_(device),
      replica_(replica),
      num_shards_(num_shards),
      range_(comm::shard_range(communicator.rank(), communicator.size(), num_shards)),
      timeout_(timeout),
      gradients_(sync::make_allreduce_sync(communicator, replica.layout(), num_shards, timeout)),
      totals_(kTotals) {}

models::Batch ShardRunner::fetch(const data::Dataset& data, std::span<const std::int64_t> ids) {
  const auto samples = static_cast<std::int64_t>(ids.size());
  std::vector<std::int64_t> shape = {samples};
  shape.insert(shape.end(), data.sample_shape().begin(), data.sample_shape().end());
  const std::int64_t elements =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  // Never empty, so that an empty shard's tensors are tensors.
  inputs_.resize(static_cast<std::size_t>(std::max<std::int64_t>(elements, 1)));
  labels_.resize(std::max<std::size_t>(ids.size(), 1));
  data.fetch(ids, inputs_.data(), labels_.data());
  return {device::Tensor(inputs_.data(), device::DType::kFloat32, std::span<const std::int64_t>(shape)),
          device::Tensor(labels_.data(), device::DType::kInt32, {samples})};
}

Result<BatchTotals> ShardRunner::train_batch(const data::Dataset& data, data::BatchSchedule& schedule,
                                             const BatchPosition& position, const Requests& requests) {
  gradients_->begin_step(position.step);
  totals_.begin(range_);
  for (std::int64_t shard = range_.begin; shard < range_.end; ++shard) {
    nn::ShardContext context;
    context.device = &device_;
    context.seed = position.seed;
    context.step = position.rng_counter;
    context.shard = static_cast<std::int32_t>(shard);
    context.training = true;
    context.gradient_scale = 1.0 / static_cast<double>(schedule.batch_samples(position.batch));
    context.parameters_version = static_cast<std::uint64_t>(position.step) + 1;
    const auto ids = schedule.samples(position.epoch, position.batch, context.shard);
    MUSTER_ASSIGN(const models::ShardResult result,
                  replica_.model().train_shard(context, fetch(data, ids), replica_.parameters().tensors(),
                                               replica_.shard_gradients().tensors()));
    gradients_->add_shard(replica_.shard_gradients().flat());
    Leaf leaf = leaf_of(result);
    if (shard == range_.begin) {
      leaf[3] = requests.stop ? 1 : 0;
      leaf[4] = requests.save ? 1 : 0;
      leaf[5] = requests.saving ? 1 : 0;
    }
    totals_.add(leaf);
  }
  MUSTER_TRY(gradients_->finish_step(replica_.gradients().flat()));
  return reduce_totals(position.step, kTotalsBucket);
}

Result<BatchTotals> ShardRunner::evaluate(const data::Dataset& data, std::int64_t batch_size,
                                          std::int64_t step) {
  data::BatchSchedule schedule(data.size(), batch_size, 0, num_shards_, data::Order::kSequential);
  totals_.begin(range_);
  for (std::int64_t shard = range_.begin; shard < range_.end; ++shard) {
    Leaf leaf{};
    for (std::int64_t batch = 0; batch < schedule.steps_per_epoch(); ++batch) {
      nn::ShardContext context;
      context.device = &device_;
      context.shard = static_cast<std::int32_t>(shard);
      context.parameters_version = static_cast<std::uint64_t>(step) + 1;
      const auto ids = schedule.samples(0, batch, context.shard);
      MUSTER_ASSIGN(
          const models::ShardResult result,
          replica_.model().evaluate_shard(context, fetch(data, ids), replica_.parameters().tensors()));
      const Leaf part = leaf_of(result);
      for (std::size_t i = 0; i < kTotals; ++i) leaf[i] += part[i];
    }
    totals_.add(leaf);
  }
  return reduce_totals(step, kEvaluationBucket);
}

Result<BatchTotals> ShardRunner::reduce_totals(std::int64_t step, std::int32_t bucket) {
  Leaf sums{};
  comm::CollectiveOptions options;
  options.step = step;
  options.bucket = bucket;
  options.timeout = timeout_;
  MUSTER_TRY(communicator_
                 .all_reduce_shards(totals_.partials(), num_shards_, sums.data(), sums.size(),
                                    comm::DType::kFloat64, options)
                 ->wait());
  return BatchTotals{sums[0], sums[1], sums[2], sums[3] > 0, sums[4] > 0, sums[5] > 0};
}

}  // namespace muster
