#include "tests/support/training_fixture.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <thread>

#include "common/run_contract.h"
#include "trainer/comm/thread_communicator.h"
#include "trainer/device/device.h"

namespace muster::testing {
namespace {

using checkpoint::Group;

Group group_over(comm::Communicator& communicator) {
  Group group;
  group.rank = communicator.rank();
  group.size = communicator.size();
  group.all_gather_text = [&communicator](std::string_view mine) {
    comm::CollectiveOptions options;
    options.timeout = std::chrono::minutes(1);
    return comm::all_gather_text(communicator, mine, options);
  };
  return group;
}

// A rank's sink: records, and raises the stop flag when rank 0 reaches the step.
class StoppingSink final : public EventSink {
 public:
  StoppingSink(RecordingSink& recorder, const TrainingRun& run, std::atomic<int>& flag)
      : recorder_(recorder), run_(run), flag_(flag) {}
  void emit(const nlohmann::json& event) override {
    recorder_.emit(event);
    if (run_.on_event) run_.on_event(event);
    if (event.at("event") == contract::event::kSamples && event.at("step") == run_.stop_at_step)
      flag_.store(10);
  }

 private:
  RecordingSink& recorder_;
  const TrainingRun& run_;
  std::atomic<int>& flag_;
};

Result<TrainOutcome> run_rank(const TrainingRun& run, comm::Communicator& communicator,
                              RecordingSink& recorder, std::atomic<int>& stop_flag,
                              const std::shared_ptr<checkpoint::MemoryCheckpoints>& backing) {
  MUSTER_ASSIGN(auto device, device::make_device(run.options.device, run.options.threads));
  checkpoint::MemoryStoreOptions store_options;
  store_options.backing = backing;
  store_options.retention.keep_last = run.options.keep_last;
  store_options.generation = run.generation;
  MUSTER_ASSIGN(auto store, run.open_store
                                ? run.open_store(group_over(communicator))
                                : checkpoint::open_memory_store(store_options, group_over(communicator)));
  if (run.decorate) store = run.decorate(std::move(store));
  std::atomic<int> nobody_stops{0};
  RequestedSaves none;
  StoppingSink events(recorder, run, communicator.rank() == run.stop_rank ? stop_flag : nobody_stops);
  const auto load_data = [&]() -> Result<data::DatasetPair> {
    data::DatasetPair pair{
        std::make_shared<ClusterDataset>(run.samples, 5, run.poisoned, run.sample_shape),
        std::make_shared<ClusterDataset>(40, 6, std::vector<std::int64_t>{}, run.sample_shape)};
    if (run.decorate_data) pair.train = run.decorate_data(communicator.rank(), std::move(pair.train));
    return pair;
  };
  return train(run.options,
               {communicator, *device, load_data, store.get(), events,
                communicator.rank() == run.stop_rank ? stop_flag : nobody_stops,
                communicator.rank() == 0 && run.requested_saves ? *run.requested_saves : none, run.now});
}

}  // namespace

ClusterDataset::ClusterDataset(std::int64_t samples, std::uint64_t seed, std::vector<std::int64_t> poisoned,
                               std::vector<std::int64_t> sample_shape)
    : samples_(samples),
      seed_(seed),
      poisoned_(std::move(poisoned)),
      shape_(std::move(sample_shape)),
      fingerprint_(fmt::format("clusters/{}/{}/{}", samples, seed, fmt::join(poisoned_, ","))) {}

Status ClusterDataset::fetch(std::span<const std::int64_t> ids, float* inputs, std::int32_t* labels) const {
  const auto features = static_cast<std::size_t>(
      std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies<>()));
  for (const std::int64_t id : ids) {
    const auto label = static_cast<std::int32_t>(id % classes());
    *labels++ = label;
    for (std::size_t feature = 0; feature < features; ++feature) {
      // A small integer hash as noise: any fixed function of (seed, id, feature) does.
      const std::uint64_t word =
          (static_cast<std::uint64_t>(id) * 1315423911u + feature * 2654435761u + seed_) *
          0x9e3779b97f4a7c15u;
      const float noise = static_cast<float>(word >> 40) / static_cast<float>(1 << 24) - 0.5f;
      *inputs++ = (static_cast<std::int32_t>(feature) % 4 == label ? 1.0f : 0.0f) + noise;
    }
    if (std::find(poisoned_.begin(), poisoned_.end(), id) != poisoned_.end()) {
      std::fill(inputs - features, inputs, std::numeric_limits<float>::quiet_NaN());
    }
  }
  return {};
}

void RecordingSink::emit(const nlohmann::json& event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

std::vector<nlohmann::json> RecordingSink::named(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& event : events_) {
    if (event.at("event") == name) found.push_back(event);
  }
  return found;
}

TrainingResult run_training(const TrainingRun& run,
                            const std::shared_ptr<checkpoint::MemoryCheckpoints>& backing) {
  comm::CommunicatorOptions options;
  options.algorithm = run.options.allreduce == "tree" ? comm::Algorithm::kTree : comm::Algorithm::kRing;
  options.generation = run.generation;
  options.peer_timeout = run.options.peer_timeout;
  comm::ThreadCommunicators communicators = comm::make_thread_communicators(run.ranks, options);
  TrainingResult result;
  result.events = std::make_shared<RecordingSink>();
  result.outcomes.resize(static_cast<std::size_t>(run.ranks));
  std::atomic<int> stop_flag{0};
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < result.outcomes.size(); ++rank) {
    threads.emplace_back([&, rank] {
      comm::Communicator& communicator = *communicators.ranks[rank];
      result.outcomes[rank] = run_rank(run, communicator, *result.events, stop_flag, backing);
      // As muster-train does: a rank that fails takes the others with it.
      if (!result.outcomes[rank]) communicator.abort(result.outcomes[rank].error().message);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

TrainerOptions demanding_options() {
  TrainerOptions options;
  options.hidden = {16, 8};
  options.dropout = 0.3;
  options.data_path = "made up";
  options.batch_size = 32;  // 150 samples: four full batches and one of 22
  options.epochs = 6;
  options.shards = 8;
  options.learning_rate = 0.01;
  options.warmup_steps = 7;
  options.checkpoint_every_steps = 4;
  options.keep_best = false;
  options.log_samples = true;
  options.log_every_steps = 1;
  options.collective_timeout = std::chrono::minutes(1);
  return options;
}

std::map<std::string, std::vector<float>> newest_tensors(
    const std::shared_ptr<checkpoint::MemoryCheckpoints>& backing) {
  Group alone;
  alone.all_gather_text = [](std::string_view mine) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{std::string(mine)};
  };
  checkpoint::MemoryStoreOptions options;
  options.backing = backing;
  options.generation = std::numeric_limits<std::int32_t>::max();
  auto store = checkpoint::open_memory_store(options, alone).value();
  auto loaded = store->load_latest().value();
  std::map<std::string, std::vector<float>> tensors;
  if (!loaded.checkpoint) return tensors;
  for (const std::string& name : loaded.checkpoint->tensor_names()) {
    const auto shape = loaded.checkpoint->shape(name).value();
    const auto elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<float>& values = tensors[name];
    values.resize(static_cast<std::size_t>(elements));
    const Status read = loaded.checkpoint->read_rows(name, 0, shape.at(0), values.data());
    if (!read) tensors.clear();
  }
  return tensors;
}

}  // namespace muster::testing
