// Whole runs of muster-train under muster, with what other tests leave at its default: HDF5 data, the ring,
// steps that are skipped, and a resumption that computes otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>

#include "common/file_ops.h"
#include "common/run_contract.h"
#include "tests/support/hdf5_files.h"
#include "tests/support/run_under_test.h"
#include "tests/support/temporary_directory.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/data/dataset.h"

namespace muster {
namespace {

namespace event = contract::event;
namespace fs = std::filesystem;
using nlohmann::json;
using testing::demanding_task;
using ::testing::HasSubstr;
using testing::RunUnderTest;

constexpr int kEpochs = 3;
constexpr std::int64_t kBatch = 64;  // of the demanding task, as are
constexpr std::uint64_t kSeed = 7;
constexpr int kShards = 8;

std::string with(std::string text, const std::string& found, const std::string& instead) {
  const std::size_t at = text.find(found);
  EXPECT_NE(at, std::string::npos) << found;
  return text.replace(at, found.size(), instead);
}

std::string with_more(const std::string& task, const std::string& trainer_keys) {
  return with(task, "trainer:\n", "trainer:\n" + trainer_keys);
}

std::string final_hash(const std::string& task) {
  RunUnderTest run(task);
  EXPECT_EQ(run.run({"--quiet"}), 0) << run.output();
  return run.hash();
}

std::vector<json> named(RunUnderTest& run, std::string_view name) {
  std::vector<json> found;
  for (const json& e : run.events()) {
    if (e.at("event") == name) found.push_back(e);
  }
  return found;
}

// ---- HDF5 data ----------------------------------------------------------------------------------------

using Change = std::function<void(std::vector<float>& inputs)>;

void write_hdf5(const fs::path& path, const data::Dataset& samples, const Change& change) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(samples.size()));
  std::iota(ids.begin(), ids.end(), 0);
  const auto& shape = samples.sample_shape();
  const auto elements = static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  std::vector<float> inputs(ids.size() * elements);
  std::vector<std::int32_t> labels(ids.size());
  ASSERT_TRUE(samples.fetch(ids, inputs.data(), labels.data()));
  if (change) change(inputs);
  std::vector<hsize_t> extents = {ids.size()};
  extents.insert(extents.end(), shape.begin(), shape.end());
  const auto lock = hdf5_lock();
  const Hdf5Id file = testing::create_hdf5(path);
  testing::add_dataset(file, "x", extents, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, inputs);
  testing::add_dataset(file, "y", {ids.size()}, H5T_STD_U8LE, H5T_NATIVE_INT32, labels);
}

// The digits as they are in IDX files, but for what `change` does to the training inputs.
void write_digits(const fs::path& directory, const Change& change = nullptr) {
  const auto digits = data::load_datasets("idx", MUSTER_SOURCE_DIR "/examples/data/digits8x8");
  ASSERT_TRUE(digits) << digits.error().message;
  write_hdf5(directory / "train.h5", *digits->train, change);
  write_hdf5(directory / "test.h5", *digits->test, nullptr);
}

std::string hdf5_task(int ranks, int epochs, const fs::path& data) {
  const std::string task =
      with(demanding_task(ranks, epochs), MUSTER_SOURCE_DIR "/examples/data/digits8x8", data);
  return with_more(task, "  dataset: hdf5\n");
}

TEST(Hdf5Data, ARunOnItEndsWithTheBitsOfOneOnTheSameSamplesInIdxFiles) {
  const testing::TemporaryDirectory data;
  write_digits(data.path());
  const std::string expected = final_hash(demanding_task(1, kEpochs));
  EXPECT_EQ(expected.size(), 64U);
  for (const int ranks : {1, 3})
    EXPECT_EQ(final_hash(hdf5_task(ranks, kEpochs, data.path())), expected) << ranks;
}

TEST(Hdf5Data, AValueThatIsNotFiniteEndsTheRunAtOnceWithItsName) {
  const testing::TemporaryDirectory data;
  constexpr std::size_t kSample = 1234;
  write_digits(data.path(), [](std::vector<float>& inputs) {
    inputs[kSample * 64 + 5] = std::numeric_limits<float>::quiet_NaN();
  });
  RunUnderTest run(hdf5_task(2, kEpochs, data.path()));
  EXPECT_EQ(run.run(), contract::kExitDoNotRetry) << run.output();
  EXPECT_THAT(run.output(), HasSubstr((data.path() / "train.h5").string() +
                                      ": /x: value 5 of sample 1234 is nan; allowed: finite numbers"));
  EXPECT_EQ(named(run, event::kAttemptStarted).size(), 1U);
  EXPECT_TRUE(named(run, event::kStep).empty());
}

// ---- A loss that is not finite on the last rank alone -------------------------------------------------

TEST(Nonfinite, AStepThatOnlyTheLastRankCannotComputeIsSkippedByAllAndTheBitsAreEqual) {
  const testing::TemporaryDirectory data;
  // A sample of the last shard. Finite, but no product with it is.
  data::BatchSchedule schedule(1500, kBatch, kSeed, kShards);
  const std::int64_t batch = 5;
  const auto sample = static_cast<std::size_t>(schedule.samples(0, batch, kShards - 1)[0]);
  write_digits(data.path(), [&](std::vector<float>& inputs) {
    std::fill_n(inputs.begin() + static_cast<std::ptrdiff_t>(sample * 64), 64,
                std::numeric_limits<float>::max());
  });
  std::string on_one_rank;
  for (const int ranks : {1, 2, 4}) {
    RunUnderTest run(with_more(hdf5_task(ranks, 1, data.path()), "  on_nonfinite: skip\n"));
    ASSERT_EQ(run.run({"--quiet"}), 0) << run.output();
    const auto skipped = named(run, event::kStepSkipped);
    ASSERT_EQ(skipped.size(), 1U) << ranks << " ranks";
    EXPECT_EQ(skipped[0].at("step"), batch);
    EXPECT_THAT(skipped[0].at("reason").get<std::string>(),
                HasSubstr(fmt::format("it comes from shard 7 (rank {})", ranks - 1)));
    if (ranks == 1) on_one_rank = run.hash();
    EXPECT_EQ(run.hash(), on_one_rank) << ranks << " ranks";
    EXPECT_EQ(on_one_rank.size(), 64U);
  }
}

// ---- The ring -----------------------------------------------------------------------------------------

std::string ring_task(int ranks, int epochs) {
  return with_more(demanding_task(ranks, epochs), "  allreduce: {algorithm: ring}\n");
}

// What it promises: the same bits on the same number of ranks, also after a stop.
TEST(Ring, ARunEndsWithTheSameBitsOnTheSameNumberOfRanks) {
  for (const int ranks : {2, 3, 4}) {
    RunUnderTest run(ring_task(ranks, kEpochs));
    ASSERT_EQ(run.run({"--quiet"}), 0) << run.output();
    const auto finished = named(run, event::kFinished);
    ASSERT_EQ(finished.size(), 1U);
    EXPECT_EQ(finished[0].at("step"), 24 * kEpochs);
    EXPECT_GT(finished[0].at("result").at("accuracy").get<double>(), 0.5);
    EXPECT_EQ(named(run, event::kConfiguration).at(0).at("communicator"), "ring/mpi");
    EXPECT_EQ(final_hash(ring_task(ranks, kEpochs)), run.hash()) << ranks << " ranks";
  }
}

TEST(Ring, AStoppedRunGoesOnToTheSameBits) {
  constexpr int kLonger = 10;
  RunUnderTest run(ring_task(3, kLonger));
  run.start();
  ASSERT_TRUE(run.wait_for([](const json& e) { return e.at("event") == event::kCheckpoint; }))
      << run.output();
  ::kill(run.pid(), SIGINT);
  ASSERT_EQ(run.wait(), contract::kMusterStopped) << run.output();
  ASSERT_EQ(run.run(), 0) << run.output();
  EXPECT_EQ(named(run, event::kResumed).size(), 1U);
  EXPECT_EQ(run.hash(), final_hash(ring_task(3, kLonger)));
}

// ---- Going on elsewhere -------------------------------------------------------------------------------

TEST(Resume, OnOtherThreadsIsNamedInTheJournalAndInTheRanksOutput) {
  constexpr int kLonger = 10;
  const std::string task = demanding_task(2, kLonger);
  RunUnderTest run(task);
  run.start();
  ASSERT_TRUE(run.wait_for([](const json& e) { return e.at("event") == event::kCheckpoint; }))
      << run.output();
  ::kill(run.pid(), SIGINT);
  ASSERT_EQ(run.wait(), contract::kMusterStopped) << run.output();
  run.write_task(with_more(task, "  threads: 2\n"));
  ASSERT_EQ(run.run({"--accept-changes"}), 0) << run.output();
  const auto changes = named(run, event::kConfigurationChanged);
  ASSERT_EQ(changes.size(), 1U);
  const json& device = changes[0].at("code").at("device");
  EXPECT_THAT(device.at("before").get<std::string>(), HasSubstr(", 1 thread, "));
  EXPECT_THAT(device.at("now").get<std::string>(), HasSubstr(", 2 threads, "));
  std::string said;
  for (const auto& entry : fs::recursive_directory_iterator(run.run_directory() / "logs" / "attempt-2")) {
    if (entry.is_regular_file()) said += read_text_file(entry.path()).value_or("");
  }
  EXPECT_THAT(said, HasSubstr("changed since the checkpoint was made: "));
  EXPECT_THAT(said, HasSubstr("threads: 1 then, 2 now"));
}

}  // namespace
}  // namespace muster
