// What saving costs training, and how fast it is. Under mpirun, one JSON object from rank 0; its formulas:
//   stall_s: (wall of N steps with K saves − wall of N steps without) / K, medians of the repetitions
//   stall_percent: 100 · stall_s / interval_s: of training time at the default interval of 30 s
//   held_up_s: what the trainer itself counts: the main thread's time in a save (median)
//   save_bytes_per_s: bytes / seconds of a save that training waits for (the last one of a run)
//   raw_bytes_per_s: the same bytes, a file a rank, write(2) and fsync(2) in the same directory
// Verified: every repetition, with and without saves, ends with the same hash of the weights.
// usage: mpirun -np N checkpoint DIRECTORY [hidden sizes, comma-separated] [batch] [steps a save] [saves]
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/round_trip.h"
#include "common/checkpoint/hash.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/verify.h"
#include "common/file_ops.h"
#include "common/run_contract.h"
#include "trainer/checkpoint/hdf5_store.h"
#include "trainer/comm/mpi_communicator.h"
#include "trainer/data/dataset.h"
#include "trainer/device/device.h"
#include "trainer/handles/mpi_session.h"
#include "trainer/train_loop.h"

namespace {

namespace fs = std::filesystem;
namespace contract = muster::contract;
using muster::Result;
using muster::Status;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kRepetitions = 5;
constexpr double kInterval_s = 30;

struct Options {
  fs::path directory;
  std::vector<std::int64_t> hidden = {512, 256};
  std::int64_t batch = 256;
  std::int64_t steps_a_save = 50;
  std::int64_t saves = 4;
  std::int64_t steps() const { return steps_a_save * (saves + 1); }
};

// Random-looking images and labels, a pure function of the sample's number.
class MadeUpDigits final : public muster::data::Dataset {
 public:
  explicit MadeUpDigits(std::int64_t samples) : samples_(samples) {}
  std::int64_t size() const override { return samples_; }
  const std::vector<std::int64_t>& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return 10; }
  const std::string& fingerprint() const override { return fingerprint_; }
  muster::Status fetch(std::span<const std::int64_t> ids, float* inputs,
                       std::int32_t* labels) const override {
    for (const std::int64_t id : ids) {
      *labels++ = static_cast<std::int32_t>(id % classes());
      for (std::int64_t i = 0; i < shape_[0]; ++i) {
        *inputs++ = static_cast<float>((id * 7919 + i * 104729) % 1000) / 1000.0F;
      }
    }
    return {};
  }

 private:
  std::int64_t samples_;
  std::vector<std::int64_t> shape_ = {784};
  std::string fingerprint_ = "made up digits";
};

// When steps ended, and what saves said.
class Stopwatch final : public muster::EventSink {
 public:
  void emit(const json& event) override {
    if (event.at("event") == contract::event::kStep) step_ends_.push_back(Clock::now());
    if (event.at("event") == contract::event::kCheckpoint) saves_.push_back(event);
  }
  // From the end of the first step to the end of the last.
  double wall_s() const {
    return std::chrono::duration<double>(step_ends_.back() - step_ends_.front()).count();
  }
  const std::vector<json>& saves() const { return saves_; }  // the last one was waited for

 private:
  std::vector<Clock::time_point> step_ends_;
  std::vector<json> saves_;
};

struct Rank {
  const Options& options;
  muster::comm::Communicator& communicator;
  muster::device::Device& device;
};

muster::checkpoint::Group group_of(muster::comm::Communicator& communicator) {
  return {communicator.rank(), communicator.size(), [&communicator](std::string_view mine) {
            return muster::comm::all_gather_text(communicator, mine, {});
          }};
}

// One whole training; the hash of its last checkpoint (rank 0).
Result<std::string> train(const Rank& rank, bool with_saves, Stopwatch& stopwatch) {
  const fs::path directory = rank.options.directory / "checkpoints";
  muster::checkpoint::Hdf5StoreOptions store_options;
  store_options.directory = directory;
  store_options.generation = 1;
  MUSTER_ASSIGN(auto store, muster::checkpoint::open_hdf5_store(store_options, group_of(rank.communicator)));
  muster::TrainerOptions options;
  options.hidden = rank.options.hidden;
  options.batch_size = rank.options.batch;
  options.steps = rank.options.steps();
  options.log_every_steps = 1;
  options.evaluate_every_epochs = 0;
  options.checkpoint_every_steps = with_saves ? rank.options.steps_a_save : 0;
  const std::atomic<int> nobody_stops{0};
  muster::RequestedSaves nobody_asks;
  const auto load_data = [&]() -> Result<muster::data::DatasetPair> {
    return muster::data::DatasetPair{std::make_shared<MadeUpDigits>(16 * rank.options.batch),
                                     std::make_shared<MadeUpDigits>(rank.options.batch)};
  };
  MUSTER_ASSIGN(const auto outcome,
                muster::train(options, {rank.communicator, rank.device, load_data, store.get(), stopwatch,
                                        nobody_stops, nobody_asks}));
  std::string hash;
  if (rank.communicator.rank() == 0) {
    const fs::path last = directory / muster::checkpoint::step_directory_name(outcome.step);
    MUSTER_ASSIGN(const auto verified, muster::checkpoint::verify_checkpoint(last));
    if (!verified.sound()) return muster::fail(muster::ErrorCode::kCorrupt, "{} is damaged", last.string());
    MUSTER_ASSIGN(
        hash, muster::checkpoint::canonical_hash(muster::checkpoint::TensorReader(last, *verified.manifest)));
    MUSTER_TRY(muster::remove_tree(muster::posix_file_ops(), directory));
  }
  MUSTER_TRY(rank.communicator.barrier({})->wait());
  return hash;
}

// Every rank writes its share of `bytes` and waits for the disk; the seconds until all have.
Result<double> raw_write_s(const Rank& rank, std::int64_t bytes) {
  const std::vector<std::byte> share(static_cast<std::size_t>(bytes / rank.communicator.size()),
                                     std::byte{7});
  const fs::path file = rank.options.directory / fmt::format("raw-{}", rank.communicator.rank());
  MUSTER_TRY(rank.communicator.barrier({})->wait());
  const auto begin = Clock::now();
  MUSTER_TRY(muster::write_new_file(muster::posix_file_ops(), file, share));
  MUSTER_TRY(rank.communicator.barrier({})->wait());
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  MUSTER_TRY(muster::remove_tree(muster::posix_file_ops(), file));
  return seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Status run(const Rank& rank) {
  std::vector<double> with_s;
  std::vector<double> without_s;
  std::vector<double> held_up_s;
  std::vector<double> in_background_s;
  std::vector<double> waited_s;
  std::vector<double> raw_s;
  std::int64_t bytes = 0;
  std::string hash;
  for (int repetition = -1; repetition < kRepetitions; ++repetition) {  // the first one warms up
    for (const bool with_saves : {false, true}) {
      Stopwatch stopwatch;
      MUSTER_ASSIGN(const std::string ended_with, train(rank, with_saves, stopwatch));
      if (hash.empty()) hash = ended_with;
      if (ended_with != hash) {
        return muster::fail(muster::ErrorCode::kMismatch, "the weights depend on whether they are saved");
      }
      std::int64_t saved = 0;  // only rank 0 hears of it
      if (rank.communicator.rank() == 0) saved = stopwatch.saves().back().at("bytes").get<std::int64_t>();
      MUSTER_TRY(
          rank.communicator.broadcast(&saved, sizeof saved, muster::comm::DType::kByte, 0, {})->wait());
      bytes = saved;
      if (repetition < 0 || rank.communicator.rank() != 0) continue;
      (with_saves ? with_s : without_s).push_back(stopwatch.wall_s());
      waited_s.push_back(stopwatch.saves().back().at("seconds").get<double>());
      for (std::size_t i = 0; i + 1 < stopwatch.saves().size(); ++i) {
        held_up_s.push_back(stopwatch.saves()[i].at("held_up_seconds").get<double>());
        in_background_s.push_back(stopwatch.saves()[i].at("seconds").get<double>());
      }
    }
    MUSTER_ASSIGN(const double seconds, raw_write_s(rank, bytes));
    raw_s.push_back(seconds);
  }
  if (rank.communicator.rank() != 0) return {};
  const auto saves = static_cast<double>(held_up_s.size()) / kRepetitions;
  const double stall_s = (median(with_s) - median(without_s)) / saves;
  const auto steps = static_cast<double>(rank.options.steps() - 1);
  const auto size = static_cast<double>(bytes);
  fmt::print("{}\n", json{{"model", fmt::format("784-{}-10", fmt::join(rank.options.hidden, "-"))},
                          {"ranks", rank.communicator.size()},
                          {"core_round_trip_ns", muster::benchmarks::core_round_trip_ns()},
                          {"bytes", bytes},
                          {"saves", saves},
                          {"step_s", median(without_s) / steps},
                          {"wall_with_s", with_s},
                          {"wall_without_s", without_s},
                          {"stall_s", stall_s},
                          {"stall_percent", 100 * stall_s / kInterval_s},
                          {"held_up_s", median(held_up_s)},
                          {"in_background_s", median(in_background_s)},
                          {"save_bytes_per_s", size / median(waited_s)},
                          {"raw_bytes_per_s", size / median(raw_s)},
                          {"verified", hash}}
                         .dump(2));
  return {};
}

Options parse(int argc, char** argv) {
  Options options;
  if (argc > 1) options.directory = argv[1];
  if (argc > 2) {
    options.hidden.clear();
    std::stringstream text(argv[2]);
    for (std::string size; std::getline(text, size, ',');) options.hidden.push_back(std::atoll(size.c_str()));
  }
  if (argc > 3) options.batch = std::atoll(argv[3]);
  if (argc > 4) options.steps_a_save = std::atoll(argv[4]);
  if (argc > 5) options.saves = std::atoll(argv[5]);
  return options;
}

Status start_and_run(const Options& options) {
  MUSTER_TRY(muster::make_directories(muster::posix_file_ops(), options.directory));
  MUSTER_ASSIGN(const auto session, muster::MpiSession::start({}));
  muster::comm::CommunicatorOptions communication;
  communication.algorithm = muster::comm::Algorithm::kTree;
  communication.generation = 1;
  MUSTER_ASSIGN(auto communicator, muster::comm::make_mpi_communicator(*session, communication));
  MUSTER_ASSIGN(const auto device, muster::device::make_device("cpu", 1));
  MUSTER_TRY(run({options, *communicator, *device}));
  communicator.reset();
  return session->finish();
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.directory.empty() || options.hidden.empty() || options.batch < 1 || options.steps_a_save < 2 ||
      options.saves < 1) {
    fmt::print(stderr,
               "usage: mpirun -np N checkpoint DIRECTORY [hidden sizes, comma-separated] [batch] "
               "[steps a save, at least 2] [saves]\n");
    return 64;
  }
  const Status status = start_and_run(options);
  if (status) return 0;
  fmt::print(stderr, "checkpoint: {}\n", status.error().message);
  std::fflush(nullptr);
  ::_exit(1);  // after a fault MPI_Finalize could wait for the others
}
