// What is slow is no fault until its deadline, and then it is named: a save that takes 30 s, a data loader
// that stalls for 5 s. All of them at once, as they mostly wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "common/run_contract.h"
#include "tests/support/disturbed_dataset.h"
#include "tests/support/run_under_test.h"
#include "tests/support/training_fixture.h"

namespace muster {
namespace {

namespace event = contract::event;
using nlohmann::json;
using testing::demanding_task;
using testing::DisturbedDataset;
using ::testing::HasSubstr;
using testing::RunUnderTest;
using testing::TrainingResult;
using testing::TrainingRun;

constexpr int kSlowSave_s = 30;
constexpr std::chrono::seconds kStall{5};
constexpr int kEpochs = 10;  // of 24 steps, a save every 20

// Saves that training has no reason to wait for, as it would for a best one while another is written.
std::string task() {
  std::string text = demanding_task(2, kEpochs);
  const std::string found = "checkpoint: {every_steps: 20}";
  return text.replace(text.find(found), found.size(), "checkpoint: {every_steps: 20, keep_best: false}");
}

// A run whose first save waits for one rank's disk, with the deadlines that a task has by itself.
struct SlowSave {
  int exit_code = -1;
  std::string output;
  std::string hash;
  std::vector<json> events;
};

SlowSave run_with_a_slow_save() {
  RunUnderTest run(
      fmt::format("{}env:\n  LD_PRELOAD: {}\n  SLOW_DISK_FILE: /rank-00001.h5\n  SLOW_DISK_SECONDS: {}\n",
                  task(), SLOW_DISK_LIBRARY, kSlowSave_s));
  SlowSave slow;
  slow.exit_code = run.run();
  slow.output = run.output();
  slow.hash = run.hash();
  slow.events = run.events();
  return slow;
}

std::string undisturbed_hash() {
  RunUnderTest run(task());
  EXPECT_EQ(run.run({"--quiet"}), 0) << run.output();
  return run.hash();
}

// Three ranks; rank 1's loader stalls in its 20th fetch.
TrainingResult train_with_a_stall(const TrainerOptions& options,
                                  const std::shared_ptr<checkpoint::MemoryCheckpoints>& backing) {
  TrainingRun run;
  run.options = options;
  run.ranks = 3;
  run.decorate_data = [](int rank, std::shared_ptr<const data::Dataset> data) {
    const auto stall = [rank](int fetch) {
      if (rank == 1 && fetch == 20) std::this_thread::sleep_for(kStall);
      return Status();
    };
    return std::shared_ptr<const data::Dataset>(std::make_shared<DisturbedDataset>(std::move(data), stall));
  };
  return run_training(run, backing);
}

void expect_no_hang(const SlowSave& slow) {
  EXPECT_EQ(slow.exit_code, 0) << slow.output;
  int attempts = 0;
  std::vector<json> saved;
  for (const json& e : slow.events) {
    if (e.at("event") == event::kAttemptStarted) ++attempts;
    EXPECT_NE(e.at("event"), event::kFault) << e;
    EXPECT_NE(e.at("event"), event::kCheckpointFailed) << e;
    if (e.at("event") == event::kCheckpoint) saved.push_back(e);
  }
  EXPECT_EQ(attempts, 1);
  ASSERT_EQ(saved.size(), 2U) << "while one is written there is no other";
  EXPECT_EQ(saved[0].at("step"), 20);
  EXPECT_GE(saved[0].at("seconds").get<double>(), kSlowSave_s);
  EXPECT_GT(saved[0].at("steps_meanwhile").get<int>(), 100) << "training went on";
  EXPECT_EQ(saved[1].at("step"), 24 * kEpochs);
}

TEST(Slowness, ASaveOf30SecondsIsNoHangAndALoaderThatStallsFor5IsNamedAtItsDeadline) {
  std::future<SlowSave> save = std::async(std::launch::async, run_with_a_slow_save);
  const auto patient = std::make_shared<checkpoint::MemoryCheckpoints>();
  TrainerOptions usual = testing::demanding_options();
  usual.peer_timeout = std::chrono::seconds(2);  // a loader that is late is no lost rank
  std::future<TrainingResult> in_time =
      std::async(std::launch::async, [&] { return train_with_a_stall(usual, patient); });
  TrainerOptions impatient = usual;
  impatient.data_timeout = std::chrono::seconds(2);
  const TrainingResult stalled =
      train_with_a_stall(impatient, std::make_shared<checkpoint::MemoryCheckpoints>());

  for (const auto& outcome : stalled.outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().message, HasSubstr("the data loader of rank 1 stalled: the "));
    EXPECT_THAT(outcome.error().message, HasSubstr("did not come within 2.0 s"));
  }
  // By default a loader has a minute.
  for (const auto& outcome : in_time.get().outcomes) EXPECT_TRUE(outcome) << outcome.error().message;
  TrainingRun undisturbed;
  undisturbed.options = usual;
  const auto backing = std::make_shared<checkpoint::MemoryCheckpoints>();
  run_training(undisturbed, backing);
  EXPECT_EQ(testing::newest_tensors(patient), testing::newest_tensors(backing));

  const SlowSave slow = save.get();
  expect_no_hang(slow);
  EXPECT_EQ(slow.hash, undisturbed_hash());
}

}  // namespace
}  // namespace muster
