// How many samples a second one process computes: forward, backward, accumulation over the shards' tree and
// the optimizer update of an mlp, on random data. Prints one JSON object; its formulas:
//   samples_per_s = steps · batch / seconds, from the fastest of the repetitions (median_samples_per_s: the
//   median)
// usage: step_math [hidden sizes, comma-separated] [batch] [shards] [threads]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/round_trip.h"
#include "trainer/device/device.h"
#include "trainer/models/model.h"
#include "trainer/nn/bucket_layout.h"
#include "trainer/optim/optimizer.h"

namespace {

using muster::Result;
using muster::Status;
using muster::device::DType;
using muster::device::Tensor;

constexpr int kFeatures = 784;
constexpr int kClasses = 10;
constexpr int kRepetitions = 7;
constexpr double kSecondsPerRepetition = 0.6;

struct Options {
  std::vector<std::int64_t> hidden = {512, 256};
  int batch = 256;
  int shards = 16;
  int threads = 1;
};

// Flat buckets of one kind (parameters, or the gradients of one level of the tree).
struct Buckets {
  std::vector<std::unique_ptr<muster::device::Memory>> memory;
  std::vector<Tensor> tensors;
  std::vector<Tensor> flat;
};

Result<Buckets> make_buckets(muster::device::Device& device, const muster::nn::BucketLayout& layout) {
  Buckets buckets;
  std::vector<void*> bases;
  for (std::size_t bucket = 0; bucket < layout.buckets(); ++bucket) {
    MUSTER_ASSIGN(auto memory, device.allocate(layout.bucket_bytes(bucket)));
    bases.push_back(memory->data());
    buckets.memory.push_back(std::move(memory));
  }
  buckets.tensors = muster::nn::parameter_views(layout, bases);
  buckets.flat = muster::nn::bucket_views(layout, bases);
  return buckets;
}

class Bench {
 public:
  static Result<std::unique_ptr<Bench>> create(const Options& options) {
    auto bench = std::make_unique<Bench>();
    bench->options_ = options;
    MUSTER_ASSIGN(bench->device_, muster::device::make_device("cpu", options.threads));
    muster::models::ModelConfig config;
    config.hidden = options.hidden;
    config.dropout = 0.2;
    config.input_shape = {kFeatures};
    config.classes = kClasses;
    MUSTER_ASSIGN(bench->model_, muster::models::make_model(config));
    bench->layout_ = muster::nn::plan_buckets(bench->model_->parameters());
    MUSTER_ASSIGN(bench->parameters_, make_buckets(*bench->device_, bench->layout_));
    muster::nn::initialise_parameters(bench->model_->parameters(), 1, bench->parameters_.tensors);
    for (int level = 0; level <= std::countr_zero(static_cast<unsigned>(options.shards)); ++level) {
      MUSTER_ASSIGN(auto gradients, make_buckets(*bench->device_, bench->layout_));
      bench->levels_.push_back(std::move(gradients));
    }
    MUSTER_ASSIGN(bench->optimizer_,
                  muster::optim::make_optimizer({.name = "adamw"}, *bench->device_, bench->layout_));
    bench->inputs_.resize(static_cast<std::size_t>(options.batch) * kFeatures);
    for (std::size_t i = 0; i < bench->inputs_.size(); ++i) {
      bench->inputs_[i] = static_cast<float>(i * 2654435761U % 256) / 255.0F;
    }
    for (int i = 0; i < options.batch; ++i) bench->labels_.push_back(i % kClasses);
    return bench;
  }

  const muster::device::Device& device() const { return *device_; }
  double shard_seconds() const { return shard_seconds_; }
  double tree_seconds() const { return tree_seconds_; }
  double update_seconds() const { return update_seconds_; }

  Status step() {
    for (int shard = 0; shard < options_.shards; ++shard) {
      // The shard's gradients go where the tree wants them: level 0, or what merges with waiting partial
      // sums.
      MUSTER_TRY(timed(shard_seconds_, [&] { return train(shard); }));
      MUSTER_TRY(timed(tree_seconds_, [&] { return merge(shard); }));
    }
    ++step_;
    return timed(update_seconds_,
                 [&] { return optimizer_->step(1e-3, parameters_.flat, levels_.back().flat); });
  }

 private:
  template <class Work>
  static Status timed(double& seconds, Work work) {
    const auto begin = std::chrono::steady_clock::now();
    Status status = work();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return status;
  }

  // levels_[k] holds the sum of the last finished block of 2^k shards; a shard whose index has a 1 in the
  // lowest bits completes blocks, and is added to the waiting one of each level.
  Status train(int shard) {
    const int begin = options_.batch * shard / options_.shards;
    const int end = options_.batch * (shard + 1) / options_.shards;
    muster::models::Batch batch;
    batch.inputs = Tensor(inputs_.data() + static_cast<std::size_t>(begin) * kFeatures, DType::kFloat32,
                          {end - begin, kFeatures});
    batch.labels = Tensor(labels_.data() + begin, DType::kInt32, {end - begin});
    muster::nn::ShardContext context;
    context.device = device_.get();
    context.seed = 1;
    context.step = step_;
    context.shard = shard;
    context.gradient_scale = 1.0 / options_.batch;
    context.parameters_version = static_cast<std::uint64_t>(step_) + 1;
    Buckets& target = (shard & 1) == 0 ? levels_[0] : spare();
    MUSTER_TRY(model_->train_shard(context, batch, parameters_.tensors, target.tensors));
    return {};
  }

  Buckets& spare() { return levels_.size() > 1 ? spare_ : levels_[0]; }

  Status merge(int shard) {
    std::size_t level = 0;
    Buckets* sum = &spare_;
    for (int bits = shard; (bits & 1) != 0; bits >>= 1, ++level) {
      Buckets* target = (bits & 2) != 0 ? &spare_ : &levels_[level + 1];
      for (std::size_t bucket = 0; bucket < sum->flat.size(); ++bucket) {
        MUSTER_TRY(device_->add(levels_[level].flat[bucket], sum->flat[bucket], target->flat[bucket]));
      }
      sum = target;
    }
    return {};
  }

 public:
  Status make_spare() {
    MUSTER_ASSIGN(spare_, make_buckets(*device_, layout_));
    return {};
  }

 private:
  Options options_;
  std::unique_ptr<muster::device::Device> device_;
  std::unique_ptr<muster::models::Model> model_;
  muster::nn::BucketLayout layout_;
  Buckets parameters_;
  std::vector<Buckets> levels_;
  Buckets spare_;
  std::unique_ptr<muster::optim::Optimizer> optimizer_;
  std::vector<float> inputs_;
  std::vector<std::int32_t> labels_;
  std::int64_t step_ = 0;
  double shard_seconds_ = 0;
  double tree_seconds_ = 0;
  double update_seconds_ = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  if (argc > 1) {
    options.hidden.clear();
    std::stringstream text(argv[1]);
    for (std::string size; std::getline(text, size, ',');) options.hidden.push_back(std::atoll(size.c_str()));
  }
  if (argc > 2) options.batch = std::atoi(argv[2]);
  if (argc > 3) options.shards = std::atoi(argv[3]);
  if (argc > 4) options.threads = std::atoi(argv[4]);
  return options;
}

Status run(const Options& options) {
  MUSTER_ASSIGN(auto bench, Bench::create(options));
  MUSTER_TRY(bench->make_spare());
  for (int i = 0; i < 3; ++i) MUSTER_TRY(bench->step());
  std::vector<double> rates;
  int steps = 0;
  const double warm[] = {bench->shard_seconds(), bench->tree_seconds(), bench->update_seconds()};
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const auto begin = std::chrono::steady_clock::now();
    double seconds = 0;
    int count = 0;
    while (seconds < kSecondsPerRepetition) {
      MUSTER_TRY(bench->step());
      ++count;
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    rates.push_back(count * options.batch / seconds);
    steps += count;
  }
  std::sort(rates.begin(), rates.end());
  const auto per_step_us = [&](double total, double before) { return (total - before) / steps * 1e6; };
  fmt::print(
      "{{\"model\": \"{}-{}-{}\", \"batch\": {}, \"shards\": {}, \"device\": \"{}\", "
      "\"samples_per_s\": {:.0f}, \"median_samples_per_s\": {:.0f}, \"shards_us\": {:.0f}, "
      "\"tree_us\": {:.0f}, \"update_us\": {:.0f}, "
      "\"core_round_trip_ns\": {:.0f}}}\n",
      kFeatures, fmt::join(options.hidden, "-"), kClasses, options.batch, options.shards,
      bench->device().info(), rates.back(), rates[rates.size() / 2],
      per_step_us(bench->shard_seconds(), warm[0]), per_step_us(bench->tree_seconds(), warm[1]),
      per_step_us(bench->update_seconds(), warm[2]), muster::benchmarks::core_round_trip_ns());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.hidden.empty() || options.batch < 1 || options.threads < 1 || options.shards < 2 ||
      !std::has_single_bit(static_cast<unsigned>(options.shards))) {
    std::cerr << "usage: step_math [hidden sizes, comma-separated] [batch] [shards: a power of two >= 2] "
                 "[threads]\n";
    return 64;
  }
  const Status status = run(options);
  if (!status) {
    std::cerr << "step_math: " << status.error().message << "\n";
    return 1;
  }
  return 0;
}
