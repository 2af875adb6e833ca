#include "trainer/shard_runner.h"

#include <array>
#include <cmath>
#include <utility>

#include "trainer/optim/gradient_clipping.h"

namespace muster {
namespace {

// Buckets beside the gradients', in CollectiveOptions::bucket.
constexpr std::int32_t kTotalsBucket = -1;
constexpr std::int32_t kEvaluationBucket = -2;

// Leaves of the tree of totals.
enum Total : std::size_t {
  kLossSum,
  kCorrect,
  kSamples,
  kGradientSquaredNorm,
  kStop,
  kSave,
  kSaving,
  kTotals
};
using Leaf = std::array<double, kTotals>;

void add_result(Leaf& leaf, const models::ShardResult& result) {
  leaf[kLossSum] += result.loss_sum;
  leaf[kCorrect] += static_cast<double>(result.correct);
  leaf[kSamples] += static_cast<double>(result.samples);
}

}  // namespace

ShardRunner::ShardRunner(comm::Communicator& communicator, device::Device& device, Replica& replica,
                         const ShardRunnerOptions& options)
    : communicator_(communicator),
      device_(device),
      replica_(replica),
      options_(options),
      range_(comm::shard_range(communicator.rank(), communicator.size(), options.num_shards)),
      gradients_(sync::make_allreduce_sync(communicator, replica.layout(), options.num_shards,
                                           options.collective_timeout)),
      totals_(kTotals) {}

data::OwnShards ShardRunner::own_shards() const {
  return {static_cast<int>(range_.begin), static_cast<int>(range_.end)};
}

data::SampleLoaderOptions ShardRunner::loader_options(std::int64_t batches_of_a_step) const {
  return {.ahead_max = options_.prefetch_steps * batches_of_a_step * (range_.end - range_.begin),
          .timeout = options_.data_timeout};
}

void ShardRunner::begin_training(std::shared_ptr<const data::Dataset> dataset, data::BatchSchedule schedule,
                                 const data::TrainingSpan& span) {
  training_samples_.emplace(std::move(dataset), data::training_order(std::move(schedule), own_shards(), span),
                            loader_options(span.accumulation_steps));
}

Result<models::Batch> ShardRunner::next_batch(data::SampleLoader& loader) {
  const Result<data::Samples*> next = loader.next();
  if (!next) {
    return fail(next.error().code, "the data loader of rank {} {}", communicator_.rank(),
                next.error().message);
  }
  data::Samples& samples = **next;
  const auto count = static_cast<std::int64_t>(samples.request.ids.size());
  std::vector<std::int64_t> shape = {count};
  const auto& sample_shape = loader.dataset().sample_shape();
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  return models::Batch{
      device::Tensor(samples.inputs.data(), device::DType::kFloat32, std::span<const std::int64_t>(shape)),
      device::Tensor(samples.labels.data(), device::DType::kInt32, {count})};
}

// Writes the shard's gradient over all batches of the step.
Result<models::ShardResult> ShardRunner::train_shard(const StepPosition& position, std::int64_t shard,
                                                     const sync::ShardGradients& gradients) {
  models::ShardResult sum;
  for (std::int64_t batch = position.batches.begin; batch < position.batches.end; ++batch) {
    const bool is_first = batch == position.batches.begin;
    const std::span<const device::Tensor> target =
        is_first ? gradients.parameters : replica_.batch_gradients().tensors();
    nn::ShardContext context;
    context.device = &device_;
    context.seed = position.seed;
    context.step = position.rng_counter + (batch - position.batches.begin);
    context.shard = static_cast<std::int32_t>(shard);
    context.training = true;
    context.gradient_scale = 1.0 / static_cast<double>(position.batches.samples);
    context.parameters_version = static_cast<std::uint64_t>(position.step) + 1;
    MUSTER_ASSIGN(const models::Batch samples, next_batch(*training_samples_));
    MUSTER_ASSIGN(const models::ShardResult result,
                  replica_.model().train_shard(context, samples, replica_.parameters().tensors(), target));
    sum.loss_sum += result.loss_sum;
    sum.correct += result.correct;
    sum.samples += result.samples;
    if (is_first) continue;
    for (std::size_t i = 0; i < gradients.flat.size(); ++i) {
      MUSTER_TRY(device_.add(gradients.flat[i], replica_.batch_gradients().flat()[i], gradients.flat[i]));
    }
  }
  return sum;
}

Result<ShardTotals> ShardRunner::train_step(const StepPosition& position, const Requests& requests) {
  gradients_->begin_step(position.step);
  nonfinite_shards_.clear();
  std::vector<Leaf> leaves;
  for (std::int64_t shard = range_.begin; shard < range_.end; ++shard) {
    MUSTER_ASSIGN(const models::ShardResult result, train_shard(position, shard, gradients_->next_shard()));
    gradients_->add_shard();
    if (!std::isfinite(result.loss_sum)) nonfinite_shards_.push_back(shard);
    add_result(leaves.emplace_back(), result);
  }
  MUSTER_TRY(gradients_->finish_step(replica_.gradients().flat()));
  leaves.front()[kStop] = requests.stop ? 1 : 0;
  leaves.front()[kSave] = requests.save ? 1 : 0;
  leaves.front()[kSaving] = requests.saving ? 1 : 0;
  totals_.begin(range_);
  for (Leaf& leaf : leaves) {
    const std::int64_t segment = range_.begin + (&leaf - leaves.data());
    MUSTER_ASSIGN(
        leaf[kGradientSquaredNorm],
        optim::segment_squared_norm(device_, replica_.gradients().flat(), segment, options_.num_shards));
    totals_.add(leaf);
  }
  return reduce_totals(position.step, kTotalsBucket);
}

Result<ShardTotals> ShardRunner::evaluate(std::shared_ptr<const data::Dataset> dataset,
                                          std::int64_t batch_size, std::int64_t step) {
  data::BatchSchedule schedule(dataset->size(), batch_size, 0, options_.num_shards, data::Order::kSequential);
  data::SampleLoader samples(std::move(dataset), data::evaluation_order(schedule, own_shards(), step),
                             loader_options(1));
  totals_.begin(range_);
  for (std::int64_t shard = range_.begin; shard < range_.end; ++shard) {
    Leaf leaf{};
    for (std::int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch) {
      nn::ShardContext context;
      context.device = &device_;
      context.shard = static_cast<std::int32_t>(shard);
      context.parameters_version = static_cast<std::uint64_t>(step) + 1;
      MUSTER_ASSIGN(const models::Batch inputs, next_batch(samples));
      MUSTER_ASSIGN(const models::ShardResult result,
                    replica_.model().evaluate_shard(context, inputs, replica_.parameters().tensors()));
      add_result(leaf, result);
    }
    totals_.add(leaf);
  }
  return reduce_totals(step, kEvaluationBucket);
}

Result<ShardTotals> ShardRunner::reduce_totals(std::int64_t step, std::int32_t bucket) {
  Leaf sums{};
  comm::CollectiveOptions options;
  options.step = step;
  options.bucket = bucket;
  options.timeout = options_.collective_timeout;
  MUSTER_TRY(communicator_
                 .all_reduce_shards(totals_.partials(), options_.num_shards, sums.data(), sums.size(),
                                    comm::DType::kFloat64, options)
                 ->wait());
  return ShardTotals{sums[kLossSum],  sums[kCorrect],  sums[kSamples],   sums[kGradientSquaredNorm],
                     sums[kStop] > 0, sums[kSave] > 0, sums[kSaving] > 0};
}

}  // namespace muster
