// One task, any number of ranks: the same weights, bit for bit.
#include <gtest/gtest.h>
#include <signal.h>

#include <numeric>

#include "common/run_contract.h"
#include "tests/support/run_under_test.h"

namespace muster {
namespace {

namespace event = contract::event;
using nlohmann::json;
using testing::demanding_task;
using testing::RunUnderTest;

constexpr int kEpochs = 4;

// Long enough that a stop, asked for at the first checkpoint, comes well before the end.
constexpr int kStoppedEpochs = 12;

std::string hash_on(int ranks, int epochs = kEpochs) {
  RunUnderTest run(demanding_task(ranks, epochs));
  EXPECT_EQ(run.run({"--quiet"}), 0) << run.output();
  return run.hash();
}

const std::string& hash_on_one_rank() {
  static const std::string hash = hash_on(1);
  return hash;
}

class RankCount : public ::testing::TestWithParam<int> {};

TEST_P(RankCount, GivesTheSameFinalHash) { EXPECT_EQ(hash_on(GetParam()), hash_on_one_rank()); }

INSTANTIATE_TEST_SUITE_P(Exactness, RankCount, ::testing::Values(2, 3, 4, 5, 8));

std::string lenet_hash_on(int ranks) {
  std::string task = demanding_task(ranks, 1);
  const std::string mlp = "model: mlp\n  hidden: [32, 16]\n";
  task.replace(task.find(mlp), mlp.size(), "model: lenet\n  label_smoothing: 0.1\n");
  RunUnderTest run(task);
  EXPECT_EQ(run.run({"--quiet"}), 0) << run.output();
  return run.hash();
}

TEST(Lenet, GivesTheSameFinalHashOnAnyNumberOfRanks) {
  const std::string hash = lenet_hash_on(1);
  EXPECT_EQ(hash.size(), 64u);
  for (const int ranks : {2, 3}) EXPECT_EQ(lenet_hash_on(ranks), hash) << ranks << " ranks";
}

class ResumedRankCount : public ::testing::TestWithParam<int> {};

TEST_P(ResumedRankCount, GivesTheSameFinalHashAfterABeginOnFourRanks) {
  static const std::string undisturbed = hash_on(1, kStoppedEpochs);
  RunUnderTest run(demanding_task(4, kStoppedEpochs));
  run.start();
  ASSERT_TRUE(run.wait_for([](const json& e) { return e.at("event") == event::kCheckpoint; }))
      << run.output();
  ::kill(run.pid(), SIGINT);
  ASSERT_EQ(run.wait(), contract::kMusterStopped) << run.output();

  run.write_task(demanding_task(GetParam(), kStoppedEpochs));
  ASSERT_EQ(run.run(), 0) << run.output();
  EXPECT_TRUE(
      run.wait_for([](const json& e) { return e.at("event") == event::kResumed && e.at("step") > 0; }));
  EXPECT_EQ(run.hash(), undisturbed);
  for (const auto& [epoch, ids] : testing::samples_by_epoch(run.events())) {
    std::vector<std::int64_t> all(1500);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(ids, all) << "epoch " << epoch << ": not each sample exactly once";
  }
}

INSTANTIATE_TEST_SUITE_P(Exactness, ResumedRankCount, ::testing::Values(1, 2, 3, 5));

// ---- How a run may end --------------------------------------------------------------------------------

// The demanding task with more keys in its trainer group.
std::string task_with(const std::string& keys, int workers, int epochs) {
  std::string task = demanding_task(workers, epochs);
  const std::string group = "trainer:\n";
  task.insert(task.find(group) + group.size(), keys);
  return task;
}

TEST(Ending, AnEarlyStopIsTheEndOfTheRun) {
  const std::string task = task_with(
      "  early_stop: {metric: accuracy, patience: 1, min_delta: 0.5}\n  clip_norm: 1\n  accumulation_steps: "
      "2\n",
      2, 6);
  RunUnderTest run(task);
  ASSERT_EQ(run.run(), 0) << run.output();
  EXPECT_NE(run.output().find("has not improved by more than 0.5 in 1 evaluation"), std::string::npos)
      << run.output();
  std::int64_t stopped_at = 0;
  for (const json& e : run.events()) {
    if (e.at("event") == event::kEarlyStop) stopped_at = e.at("step");
    if (e.at("event") == event::kFinished) {
      EXPECT_EQ(e.at("step"), stopped_at);
    }
  }
  EXPECT_GT(stopped_at, 0);
  const std::size_t events_before = run.events().size();
  ASSERT_EQ(run.run(), 0) << run.output();
  EXPECT_NE(run.output().find("already complete"), std::string::npos) << run.output();
  EXPECT_EQ(run.events().size(), events_before);
}

TEST(Ending, ALossThatIsNotFiniteIsNoPeersFault) {
  std::string task = task_with("", 3, 6);
  const std::size_t optimizer = task.find("  optimizer:");
  ASSERT_NE(optimizer, std::string::npos) << task;
  task.replace(optimizer, task.find('\n', optimizer) - optimizer,
               "  optimizer: {name: sgd, learning_rate: 1e6}");
  RunUnderTest run(task);
  EXPECT_EQ(run.run(), contract::kExitDoNotRetry) << run.output();
  int faults = 0;
  for (const json& e : run.events()) {
    if (e.at("event") != event::kFault) continue;
    ++faults;
    EXPECT_TRUE(e.at("peer").is_null()) << e;
    EXPECT_EQ(e.at("reason").get<std::string>().find("the loss ("), 0u) << e;
  }
  EXPECT_GT(faults, 0);
}

}  // namespace
}  // namespace muster
