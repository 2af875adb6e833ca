// A save, a load or a clean-up that fails, dies or loses power at its N-th file operation, for every N until
// one goes through untouched: what can be loaded afterwards is the old checkpoint or the new one, never less.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/faulty_file_ops.h"
#include "tests/support/hdf5_store_helpers.h"
#include "tests/support/temporary_directory.h"
#include "trainer/checkpoint/checkpoint_directory.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FaultyFileOps;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::load_sample;
using ::testing::Not;
using testing::save_sample;
using testing::StoreSetup;
using testing::TemporaryDirectory;

constexpr int kMaxCalls = 500;  // no save is that long: reaching it means that the loop does not end

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool all_ok(const std::vector<Result<SaveReport>>& outcomes) {
  return std::all_of(outcomes.begin(), outcomes.end(), [](const auto& o) { return o.has_value(); });
}

// The same checkpoint directory for each N: step 1 committed by attempt 1; attempt 2 then saves step 2, and
// step 1 goes when step 2 is committed.
class CrashTest : public ::testing::TestWithParam<int /* ranks */> {
 protected:
  StoreSetup setup_in(const TemporaryDirectory& directory) const {
    StoreSetup setup;
    setup.directory = directory.path() / "checkpoints";
    setup.ranks = GetParam();
    setup.tensors = testing::small_tensors();
    setup.retention.keep_last = 1;
    FaultyFileOps faultless;
    setup.ops = &faultless;
    EXPECT_TRUE(all_ok(save_sample(setup, 1)));
    setup.ops = &posix_file_ops();
    setup.generation = 2;
    return setup;
  }

  // After whatever happened: loading works, the next save works, and then nothing else is left.
  static void expect_recovery(StoreSetup setup, std::initializer_list<std::int64_t> allowed_steps) {
    FaultyFileOps faultless;
    setup.ops = &faultless;
    setup.generation = 3;
    setup.ranks = 2;
    const auto loaded = load_sample(setup);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_THAT(allowed_steps, ::testing::Contains(loaded->step));
    EXPECT_THAT(loaded->quarantined, IsEmpty());
    ASSERT_TRUE(all_ok(save_sample(setup, 3)));
    EXPECT_THAT(names_in(setup.directory), ElementsAre("generation", "step-000000000003"));
    EXPECT_THAT(names_in(setup.directory / "step-000000000003"),
                ElementsAre("COMMITTED", "manifest.json", "master.h5", "rank-00000.h5", "rank-00001.h5"));
  }

  // Saves step 2 with a fault at call n; false once n is beyond the last call.
  template <class Check>
  void for_each_call(FaultyFileOps::Mode mode, int error_number, const Check& check) {
    int n = 1;
    for (bool reached = true; reached; ++n) {
      ASSERT_LT(n, kMaxCalls);
      SCOPED_TRACE(fmt::format("fault at call {}", n));
      const TemporaryDirectory directory;
      StoreSetup setup = setup_in(directory);
      FaultyFileOps ops(mode, n, error_number);
      setup.ops = &ops;
      const auto outcomes = save_sample(setup, 2);
      reached = ops.calls() >= n;
      EXPECT_TRUE(reached || all_ok(outcomes));
      check(setup, ops, outcomes);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(n, 20);  // it did do something
  }
};

TEST_P(CrashTest, DyingAtAnyCallOfASaveLeavesTheOldOrTheNewCheckpoint) {
  int old_ones = 0;
  int new_ones = 0;
  for_each_call(FaultyFileOps::Mode::kDeath, EIO,
                [&](const StoreSetup& setup, FaultyFileOps&, const auto& outcomes) {
                  StoreSetup other = setup;
                  other.ops = &posix_file_ops();
                  const auto loaded = load_sample(other);
                  ASSERT_TRUE(loaded) << loaded.error().message;
                  EXPECT_TRUE(loaded->step == 2 || !all_ok(outcomes));
                  ++(loaded->step == 2 ? new_ones : old_ones);
                  expect_recovery(setup, {1, 2});
                });
  EXPECT_GT(old_ones, 0);
  EXPECT_GT(new_ones, 1);  // it also died after the commit
}

TEST_P(CrashTest, LosingPowerAtAnyCallLeavesTheOldOrTheNewCheckpoint) {
  for (const auto names :
       {FaultyFileOps::Names::kKept, FaultyFileOps::Names::kLost, FaultyFileOps::Names::kSome}) {
    if (GetParam() > 1 && names != FaultyFileOps::Names::kSome) continue;  // one rank shows these as well
    for_each_call(FaultyFileOps::Mode::kDeath, EIO,
                  [&](const StoreSetup& setup, FaultyFileOps& ops, const auto& outcomes) {
                    // The seed is the number of calls until then, so that a failure can be repeated.
                    ops.lose_power(names, static_cast<unsigned>(ops.calls()));
                    if (all_ok(outcomes)) {
                      expect_recovery(setup, {2});
                    } else {
                      expect_recovery(setup, {1, 2});
                    }
                  });
  }
}

TEST_P(CrashTest, TheFirstCheckpointSurvivesAPowerLossWithItsDirectories) {
  const TemporaryDirectory directory;
  StoreSetup setup;
  setup.directory = directory.path() / "new" / "run" / "checkpoints";
  setup.ranks = GetParam();
  setup.tensors = testing::small_tensors();
  FaultyFileOps ops;
  setup.ops = &ops;
  ASSERT_TRUE(all_ok(save_sample(setup, 1)));
  ops.lose_power(FaultyFileOps::Names::kLost, 0);
  setup.ops = &posix_file_ops();
  const auto loaded = load_sample(setup);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->step, 1);
}

TEST_P(CrashTest, AnErrorAtAnyCallIsEverybodysOrAWarningAndKeepsTheOldCheckpoint) {
  for (const int error_number : {EIO, EDQUOT}) {
    if (GetParam() > 1 && error_number != EIO) continue;  // one rank shows these as well
    SCOPED_TRACE(errno_text(error_number));
    int warned = 0;
    for_each_call(FaultyFileOps::Mode::kErrorOnce, error_number,
                  [&](const StoreSetup& setup, FaultyFileOps& ops, const auto& outcomes) {
                    if (all_ok(outcomes)) {
                      // Either untouched, or the fault hit the clean-up after the commit and was reported.
                      if (!outcomes.front()->warnings.empty()) ++warned;
                      expect_recovery(setup, {2});
                      return;
                    }
                    EXPECT_GT(ops.calls(), 0);
                    for (const auto& outcome : outcomes) {
                      ASSERT_FALSE(outcome);
                      EXPECT_EQ(outcome.error().message, outcomes.front().error().message);
                      EXPECT_EQ(outcome.error().code, error_code_of_errno(error_number))
                          << outcome.error().message;
                      EXPECT_THAT(outcome.error().message, HasSubstr(errno_text(error_number)));
                    }
                    expect_recovery(setup, {1});
                  });
    EXPECT_GE(warned, 5);  // removing step 1: marker, directory fsync, its files, the directory itself
  }
}

TEST_P(CrashTest, InterruptedCallsAndShortWritesAreGoneOnWith) {
  if (GetParam() > 1) return;  // one rank shows it
  for (const auto mode : {FaultyFileOps::Mode::kErrorOnce, FaultyFileOps::Mode::kShortWrite}) {
    for_each_call(mode, EINTR, [&](const StoreSetup& setup, FaultyFileOps&, const auto& outcomes) {
      ASSERT_TRUE(all_ok(outcomes)) << outcomes.front().error().message;
      EXPECT_THAT(outcomes.front()->warnings, IsEmpty());
      expect_recovery(setup, {2});
    });
  }
}

TEST_P(CrashTest, AFullDiskKeepsTheOldCheckpoint) {
  for_each_call(FaultyFileOps::Mode::kDiskFull, ENOSPC,
                [&](const StoreSetup& setup, FaultyFileOps&, const auto& outcomes) {
                  if (!all_ok(outcomes)) {
                    // The partial directory is gone at once: the space is needed.
                    for (const std::string& name : names_in(setup.directory)) {
                      EXPECT_THAT(name, Not(HasSubstr("step-000000000002")));
                    }
                    EXPECT_EQ(outcomes.front().error().code, ErrorCode::kNoSpace);
                    expect_recovery(setup, {1});
                  } else {
                    expect_recovery(setup, {2});
                  }
                });
}

// What cannot be looked at is not thereby uncommitted: its removal once cost a sound checkpoint.
TEST_P(CrashTest, AnErrorAtAnyCallNeverCostsACheckpointThatIsKept) {
  int n = 1;
  for (bool reached = true; reached; ++n) {
    ASSERT_LT(n, kMaxCalls);
    SCOPED_TRACE(fmt::format("fault at call {}", n));
    const TemporaryDirectory directory;
    StoreSetup setup = setup_in(directory);
    setup.retention.keep_last = 3;
    ASSERT_TRUE(all_ok(save_sample(setup, 2)));
    FaultyFileOps ops(FaultyFileOps::Mode::kErrorOnce, n, ESTALE);
    setup.ops = &ops;
    const auto outcomes = save_sample(setup, 3);
    reached = ops.calls() >= n;
    std::vector<std::int64_t> expected{1, 2};
    if (all_ok(outcomes)) expected.push_back(3);
    const auto directories = step_directories(setup.directory);
    ASSERT_TRUE(directories);
    std::vector<std::int64_t> steps;
    for (const StepDirectory& step : *directories) {
      if (step.committed) steps.push_back(step.name.step);
    }
    EXPECT_EQ(steps, expected);
  }
}

TEST_P(CrashTest, WhileLoadingNeither) {
  int n = 1;
  for (bool reached = true; reached; ++n) {
    ASSERT_LT(n, kMaxCalls);
    SCOPED_TRACE(fmt::format("fault at call {}", n));
    const TemporaryDirectory directory;
    StoreSetup setup = setup_in(directory);
    fs::create_directories(setup.directory / ".partial-00001-step-000000000002");
    setup.generation = 3;
    FaultyFileOps ops(FaultyFileOps::Mode::kErrorOnce, n, ESTALE);
    setup.ops = &ops;
    const auto loaded = load_sample(setup);
    reached = ops.calls() >= n;
    if (loaded) {
      EXPECT_EQ(loaded->step, 1) << "it was passed over in silence";
      EXPECT_THAT(loaded->quarantined, IsEmpty());
    } else {
      EXPECT_EQ(loaded.error().code, ErrorCode::kIo) << loaded.error().message;
    }
    setup.ops = &posix_file_ops();
    EXPECT_EQ(load_sample(setup)->step, 1);
  }
}

// An attempt that was cut off cleans up late: what a newer one is writing is not its debris.
TEST_P(CrashTest, AnOldAttemptLeavesTheSavesOfANewerOneAlone) {
  const TemporaryDirectory directory;
  StoreSetup setup = setup_in(directory);
  CheckpointDirectory old(setup.directory, posix_file_ops(), setup.retention);
  CheckpointDirectory newer(setup.directory, posix_file_ops(), setup.retention);
  ASSERT_TRUE(newer.claim(7));
  ASSERT_TRUE(newer.open_partial(7, 9));
  EXPECT_THAT(old.remove_debris(2), ElementsAre(HasSubstr("attempt 7 has taken over")));
  EXPECT_THAT(names_in(setup.directory), Contains(".partial-00007-step-000000000009"));
  EXPECT_THAT(newer.remove_debris(7), IsEmpty());
  EXPECT_THAT(names_in(setup.directory), ElementsAre("generation", "step-000000000001"));
}

// Step 1 again, with other contents, by an attempt that must not lose the old one.
TEST_P(CrashTest, DyingWhileASavedStepIsReplacedLeavesOneOfBoth) {
  int n = 1;
  for (bool reached = true; reached; ++n) {
    ASSERT_LT(n, kMaxCalls);
    SCOPED_TRACE(fmt::format("fault at call {}", n));
    const TemporaryDirectory directory;
    StoreSetup setup = setup_in(directory);
    FaultyFileOps ops(FaultyFileOps::Mode::kDeath, n, EIO);
    setup.ops = &ops;
    const auto outcomes = save_sample(setup, 1, 0.5);  // the metric differs
    reached = ops.calls() >= n;
    ops.lose_power(FaultyFileOps::Names::kSome, static_cast<unsigned>(n));
    expect_recovery(setup, {1});
    if (HasFatalFailure()) return;
  }
}

TEST_P(CrashTest, DyingWhileLoadingPutsADamagedOneAsideIsHarmless) {
  int n = 1;
  for (bool reached = true; reached; ++n) {
    ASSERT_LT(n, kMaxCalls);
    SCOPED_TRACE(fmt::format("fault at call {}", n));
    const TemporaryDirectory directory;
    StoreSetup setup = setup_in(directory);
    setup.retention.keep_last = 2;
    ASSERT_TRUE(all_ok(save_sample(setup, 2)));
    fs::resize_file(setup.directory / "step-000000000002" / "rank-00000.h5", 100);
    fs::create_directories(setup.directory / ".partial-00001-step-000000000002");
    setup.generation = 3;
    FaultyFileOps ops(FaultyFileOps::Mode::kDeath, n, EIO);
    setup.ops = &ops;
    const auto first = load_sample(setup);
    reached = ops.calls() >= n;
    setup.ops = &posix_file_ops();
    const auto second = load_sample(setup);
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->step, 1);
    EXPECT_THAT(names_in(setup.directory), ElementsAre("generation", "quarantine", "step-000000000001"));
    EXPECT_EQ(first ? first->step : 1, 1);
  }
  EXPECT_GT(n, 5);
}

// Only rank 0 removes.
class RemovalCrashTest : public CrashTest {};

// The marker goes first and for good: it must not come back over files that are gone.
TEST_P(RemovalCrashTest, LosingPowerWhileAnOldCheckpointIsRemovedLeavesNoPartOfIt) {
  constexpr int kCallsOfTheRemoval = 12;
  int total_calls = 0;
  {
    const TemporaryDirectory directory;
    StoreSetup setup = setup_in(directory);
    FaultyFileOps ops;
    setup.ops = &ops;
    ASSERT_TRUE(all_ok(save_sample(setup, 2)));
    total_calls = ops.calls();
  }
  for (int n = total_calls - kCallsOfTheRemoval; n <= total_calls; ++n) {
    for (unsigned seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(fmt::format("power lost at call {}, seed {}", n, seed));
      const TemporaryDirectory directory;
      StoreSetup setup = setup_in(directory);
      FaultyFileOps ops(FaultyFileOps::Mode::kDeath, n, EIO);
      setup.ops = &ops;
      save_sample(setup, 2);
      ops.lose_power(FaultyFileOps::Names::kSome, seed);
      expect_recovery(setup, {1, 2});
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CrashTest, ::testing::Values(1, 3));
INSTANTIATE_TEST_SUITE_P(Ranks, RemovalCrashTest, ::testing::Values(1));

}  // namespace
}  // namespace muster::checkpoint
