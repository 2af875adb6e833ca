// How many samples a second the trainer's own parts compute under mpirun, and where a step's time goes. Real
// digits, no dropout, AdamW; no evaluation and no checkpoints.
//
// Prints one JSON object (rank 0). Formulas, of rank 0's clock over the timed steps of a repetition:
//   samples_per_s: steps · batch / seconds; the median of the repetitions. `all_samples_per_s` has each.
//   phases_us, each the mean of a step, of the median repetition:
//     data           copying samples out of the dataset
//     forward        forward passes alone, timed by themselves after the repetitions
//     backward       forward and backward as training does them, less `forward`
//     communication  adding up the own shards' gradients, and the all-reduce, waiting for others included
//     optimizer      the update
// Verified: the loss falls, and every repetition, which begins anew, ends with the same parameters on every
// rank. usage: mpirun -np N step_time DATA_PATH [model] [batch] [shards] [threads] [steps] [repetitions]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "benchmarks/round_trip.h"
#include "common/sha256.h"
#include "trainer/agreement.h"
#include "trainer/comm/mpi_communicator.h"
#include "trainer/comm/shard_tree.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/handles/mpi_session.h"
#include "trainer/replica.h"
#include "trainer/sync/gradient_sync.h"

namespace {

using muster::Result;
using muster::Status;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeout{60};
constexpr int kWarmupSteps = 3;
constexpr double kLearningRate = 1e-3;

struct Settings {
  muster::TrainerOptions options;
  int steps = 30;
  int repetitions = 3;
};

enum Phase : std::size_t { kData, kTraining, kCommunication, kOptimizer, kPhases };
using Seconds = std::array<double, kPhases>;

struct Repetition {
  double seconds = 0;  // of the timed steps
  Seconds phases{};
  double first_loss = 0;
  double last_loss = 0;
  std::string parameters_sha256;
};

// The samples of one shard, in memory that is reused.
class ShardInput {
 public:
  Result<muster::models::Batch> fetch(const muster::data::Dataset& data, std::span<const std::int64_t> ids) {
    std::vector<std::int64_t> shape = {static_cast<std::int64_t>(ids.size())};
    shape.insert(shape.end(), data.sample_shape().begin(), data.sample_shape().end());
    const auto elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    inputs_.resize(static_cast<std::size_t>(std::max<std::int64_t>(elements, 1)));
    labels_.resize(std::max<std::size_t>(ids.size(), 1));
    MUSTER_TRY(data.fetch(ids, inputs_.data(), labels_.data()));
    return muster::models::Batch{
        muster::device::Tensor(inputs_.data(), muster::device::DType::kFloat32,
                               std::span<const std::int64_t>(shape)),
        muster::device::Tensor(labels_.data(), muster::device::DType::kInt32, {shape[0]})};
  }

 private:
  std::vector<float> inputs_;
  std::vector<std::int32_t> labels_;
};

class Bench {
 public:
  Bench(const Settings& settings, muster::comm::Communicator& communicator, muster::device::Device& device,
        const muster::data::Dataset& data)
      : settings_(settings),
        communicator_(communicator),
        device_(device),
        data_(data),
        shards_(muster::comm::shard_range(communicator.rank(), communicator.size(), settings.options.shards)),
        schedule_(data.size(), settings.options.batch_size, 1, settings.options.shards) {}

  // One at a time: a device may keep copies of parameters by version, and each repetition counts from 1.
  Result<Repetition> repeat() {
    MUSTER_ASSIGN(muster::Replica replica,
                  muster::Replica::create(settings_.options, data_, device_, communicator_));
    const auto sync = muster::sync::make_allreduce_sync(communicator_, replica.layout(),
                                                        settings_.options.shards, kTimeout);
    Repetition result;
    Clock::time_point begin;
    for (int step = 0; step < kWarmupSteps + settings_.steps; ++step) {
      if (step == kWarmupSteps) {
        result.phases = {};
        begin = Clock::now();
      }
      MUSTER_ASSIGN(const double loss, one_step(replica, *sync, step, result.phases));
      if (step == 0) result.first_loss = loss;
      result.last_loss = loss;
    }
    result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    muster::Sha256 hash;
    for (const auto& bucket : replica.parameters().flat()) hash.update(bucket.data, bucket.bytes());
    result.parameters_sha256 = hash.hex_digest();
    return result;
  }

  // Seconds of the forward passes of one step.
  Result<double> forward_seconds() {
    MUSTER_ASSIGN(muster::Replica replica,
                  muster::Replica::create(settings_.options, data_, device_, communicator_));
    double seconds = 0;
    for (int step = 0; step < kWarmupSteps + settings_.steps; ++step) {
      for (std::int64_t shard = shards_.begin; shard < shards_.end; ++shard) {
        MUSTER_ASSIGN(const auto batch, input_.fetch(data_, ids_of(step, shard)));
        const auto begin = Clock::now();
        MUSTER_TRY(
            replica.model().evaluate_shard(context_of(step, shard), batch, replica.parameters().tensors()));
        if (step >= kWarmupSteps) seconds += std::chrono::duration<double>(Clock::now() - begin).count();
      }
    }
    return seconds / settings_.steps;
  }

 private:
  std::span<const std::int64_t> ids_of(int step, std::int64_t shard) {
    const std::int64_t per_epoch = std::max<std::int64_t>(1, data_.size() / settings_.options.batch_size);
    return schedule_.samples(step / per_epoch, step % per_epoch, static_cast<int>(shard));
  }

  muster::nn::ShardContext context_of(int step, std::int64_t shard) const {
    muster::nn::ShardContext context;
    context.device = &device_;
    context.step = step;
    context.shard = static_cast<std::int32_t>(shard);
    context.gradient_scale = 1.0 / static_cast<double>(settings_.options.batch_size);
    context.parameters_version = static_cast<std::uint64_t>(step) + 1;
    return context;
  }

  // The loss of a sample, averaged over this rank's.
  Result<double> one_step(muster::Replica& replica, muster::sync::GradientSync& sync, int step,
                          Seconds& phases) {
    Clock::time_point mark = Clock::now();
    const auto passed = [&](Phase phase) {
      const Clock::time_point now = Clock::now();
      phases[phase] += std::chrono::duration<double>(now - mark).count();
      mark = now;
    };
    double loss = 0;
    double samples = 0;
    sync.begin_step(step);
    auto context = context_of(step, shards_.begin);
    for (std::int64_t shard = shards_.begin; shard < shards_.end; ++shard) {
      context.shard = static_cast<std::int32_t>(shard);
      MUSTER_ASSIGN(const auto batch, input_.fetch(data_, ids_of(step, shard)));
      passed(kData);
      MUSTER_ASSIGN(const auto result,
                    replica.model().train_shard(context, batch, replica.parameters().tensors(),
                                                sync.next_shard().parameters));
      loss += result.loss_sum;
      samples += static_cast<double>(result.samples);
      passed(kTraining);
      sync.add_shard();
      passed(kCommunication);
    }
    MUSTER_TRY(sync.finish_step(replica.gradients().flat()));
    passed(kCommunication);
    MUSTER_TRY(
        replica.optimizer().step(kLearningRate, replica.parameters().flat(), replica.gradients().flat()));
    passed(kOptimizer);
    return loss / samples;
  }

  const Settings& settings_;
  muster::comm::Communicator& communicator_;
  muster::device::Device& device_;
  const muster::data::Dataset& data_;
  muster::comm::ShardRange shards_;
  muster::data::BatchSchedule schedule_;
  ShardInput input_;
};

nlohmann::json report(const Settings& settings, const muster::comm::Communicator& communicator,
                      const muster::device::Device& device, std::vector<Repetition> repetitions,
                      double forward_seconds) {
  std::sort(repetitions.begin(), repetitions.end(),
            [](const Repetition& a, const Repetition& b) { return a.seconds < b.seconds; });
  const Repetition& median = repetitions[repetitions.size() / 2];
  const auto rate = [&](const Repetition& repetition) {
    return static_cast<double>(settings.steps * settings.options.batch_size) / repetition.seconds;
  };
  std::vector<double> rates;
  for (const Repetition& repetition : repetitions) rates.push_back(rate(repetition));
  const auto us = [](double seconds) { return seconds * 1e6; };
  const auto phase_us = [&](Phase phase) { return us(median.phases[phase]) / settings.steps; };
  return {{"benchmark", "step_time"},
          {"model", settings.options.model},
          {"ranks", communicator.size()},
          {"batch", settings.options.batch_size},
          {"shards", settings.options.shards},
          {"device", device.info()},
          {"communicator", communicator.name()},
          {"steps", settings.steps},
          {"core_round_trip_ns", muster::benchmarks::core_round_trip_ns()},
          {"samples_per_s", rate(median)},
          {"all_samples_per_s", rates},
          {"phases_us",
           {{"data", phase_us(kData)},
            {"forward", us(forward_seconds)},
            {"backward", phase_us(kTraining) - us(forward_seconds)},
            {"communication", phase_us(kCommunication)},
            {"optimizer", phase_us(kOptimizer)}}},
          {"first_loss", median.first_loss},
          {"last_loss", median.last_loss},
          {"parameters_sha256", median.parameters_sha256}};
}

Status verify(muster::comm::Communicator& communicator, const std::vector<Repetition>& repetitions) {
  for (const Repetition& repetition : repetitions) {
    if (!(repetition.last_loss < repetition.first_loss)) {
      return fail(muster::ErrorCode::kInternal, "the loss did not fall: {} at first, {} at last",
                  repetition.first_loss, repetition.last_loss);
    }
    if (repetition.parameters_sha256 != repetitions[0].parameters_sha256) {
      return fail(muster::ErrorCode::kInternal, "repetitions ended with different parameters");
    }
  }
  muster::comm::CollectiveOptions options;
  options.timeout = kTimeout;
  return muster::require_equal(communicator, "the final parameters", repetitions[0].parameters_sha256,
                               options);
}

Status run(const Settings& settings) {
  MUSTER_ASSIGN(const auto session, muster::MpiSession::start({}));
  {
    MUSTER_ASSIGN(const auto communicator, muster::comm::make_mpi_communicator(*session, {}));
    MUSTER_ASSIGN(const auto device, muster::device::make_device("cpu", settings.options.threads));
    MUSTER_ASSIGN(const auto data,
                  muster::data::load_datasets(settings.options.dataset, settings.options.data_path));
    if (settings.options.batch_size > data.train->size() || settings.options.shards < communicator->size()) {
      return fail(muster::ErrorCode::kInvalidArgument,
                  "allowed: a batch of at most {} samples, and at least as many shards as ranks",
                  data.train->size());
    }
    Bench bench(settings, *communicator, *device, *data.train);
    std::vector<Repetition> repetitions;
    for (int i = 0; i < settings.repetitions; ++i) {
      MUSTER_ASSIGN(Repetition repetition, bench.repeat());
      repetitions.push_back(std::move(repetition));
    }
    MUSTER_TRY(verify(*communicator, repetitions));
    MUSTER_ASSIGN(const double forward_seconds, bench.forward_seconds());
    if (communicator->rank() == 0) {
      fmt::print("{}\n", report(settings, *communicator, *device, repetitions, forward_seconds).dump());
    }
  }
  return session->finish();
}

Settings parse(int argc, char** argv) {
  Settings settings;
  muster::TrainerOptions& options = settings.options;
  options.hidden = {1024, 1024};
  const auto number = [&](int index, int otherwise) {
    return argc > index ? std::atoi(argv[index]) : otherwise;
  };
  if (argc > 1) options.data_path = argv[1];
  if (argc > 2) options.model = argv[2];
  options.batch_size = number(3, 256);
  options.shards = number(4, 16);
  options.threads = number(5, 1);
  settings.steps = number(6, settings.steps);
  settings.repetitions = number(7, settings.repetitions);
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  const muster::TrainerOptions& options = settings.options;
  if (options.data_path.empty() || options.batch_size < 1 || options.threads < 1 || settings.steps < 1 ||
      settings.repetitions < 1 || !muster::comm::is_power_of_two(options.shards)) {
    fmt::print(stderr,
               "usage: mpirun -np N step_time DATA_PATH [mlp | lenet | logistic] [batch] [shards: a power of "
               "two] [threads] [steps] [repetitions]\n");
    return 64;
  }
  const Status status = run(settings);
  if (!status) {
    fmt::print(stderr, "step_time: {}\n", status.error().message);
    std::fflush(nullptr);
    std::_Exit(1);  // MPI_Finalize could wait for the others
  }
  return 0;
}
