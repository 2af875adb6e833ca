// Saving while training goes on: whatever the disk does meanwhile, training ends with the weights of a run
// that saved on a perfect disk, or says that it could not store them; and resuming always finds a checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "common/checkpoint/hash.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/verify.h"
#include "common/run_contract.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/forwarding_file_ops.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/training_fixture.h"
#include "trainer/checkpoint/hdf5_store.h"

namespace muster {
namespace {

namespace event = contract::event;
namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;
using testing::FaultyFileOps;
using ::testing::IsEmpty;
using testing::run_training;
using testing::TemporaryDirectory;
using testing::TrainingResult;
using testing::TrainingRun;

constexpr int kMaxCalls = 2000;  // no run is that long: reaching it means that a loop does not end

// A short training over an HDF5 store, through `ops`.
TrainingRun short_run(const fs::path& directory, FileOps& ops, std::int32_t generation = 1) {
  TrainingRun run;
  run.options = testing::demanding_options();
  run.options.epochs = 2;  // 10 steps
  run.options.checkpoint_every_steps = 3;
  run.options.checkpoint_timeout = milliseconds(500);  // less than the first pause: no second try
  run.options.log_samples = false;
  run.generation = generation;
  run.open_store = [directory, generation, &ops](checkpoint::Group group) {
    checkpoint::Hdf5StoreOptions options;
    options.directory = directory;
    options.generation = generation;
    options.code = "test";
    return checkpoint::open_hdf5_store(options, std::move(group), ops);
  };
  return run;
}

TrainingResult train(const TrainingRun& run) {
  return run_training(run, std::make_shared<checkpoint::MemoryCheckpoints>());
}

bool completed(const TrainingResult& result) {
  return std::all_of(result.outcomes.begin(), result.outcomes.end(), [](const auto& o) { return o; });
}

// Names of committed step directories; each of them verifies.
std::vector<std::string> sound_checkpoints(const fs::path& directory) {
  std::vector<std::string> names;
  const auto entries = checkpoint::step_directories(directory);
  for (const auto& entry : entries.value()) {
    if (!entry.committed) continue;
    const auto verified = checkpoint::verify_checkpoint(entry.path);
    EXPECT_TRUE(verified && verified->sound()) << entry.path;
    names.push_back(entry.path.filename().string());
  }
  return names;
}

std::string final_hash(const fs::path& directory) {
  const fs::path path = directory / checkpoint::step_directory_name(10);
  const auto verified = checkpoint::verify_checkpoint(path);
  if (!verified || !verified->sound()) return "no sound checkpoint of step 10";
  return checkpoint::canonical_hash(checkpoint::TensorReader(path, *verified->manifest)).value();
}

std::string undisturbed_hash() {
  static const std::string hash = [] {
    const TemporaryDirectory directory;
    EXPECT_TRUE(completed(train(short_run(directory.path(), posix_file_ops()))));
    return final_hash(directory.path());
  }();
  return hash;
}

std::set<std::string> names_in(const fs::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
  return names;
}

void expect_no_debris(const fs::path& directory) {
  for (const std::string& name : names_in(directory)) {
    EXPECT_TRUE(name == checkpoint::kFenceFile || checkpoint::parse_step_directory_name(name)) << name;
  }
}

// Runs `check` on a training with a fault at its N-th file operation, for rising N until one goes through
// untouched. (hdf5_crash_test has every single operation of a save; here each kind of moment is enough.)
template <class Check>
void for_each_call(FaultyFileOps::Mode mode, int error_number, int stride, const Check& check) {
  int n = 1;
  for (bool reached = true; reached; n += stride) {
    ASSERT_LT(n, kMaxCalls);
    SCOPED_TRACE(fmt::format("{} at call {}", errno_text(error_number), n));
    const TemporaryDirectory directory;
    FaultyFileOps ops(mode, n, error_number);
    const TrainingResult result = train(short_run(directory.path(), ops));
    reached = ops.calls() >= n;
    check(directory.path(), result);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(n, 60);
}

TEST(BackgroundSave, AnErrorAtAnyFileOperationIsSurvivedOrTheRunsFailureAtItsEnd) {
  int tolerated = 0;
  int not_stored = 0;
  for (const int error_number : {EIO, ENOSPC}) {
    for_each_call(FaultyFileOps::Mode::kErrorOnce, error_number, 7,
                  [&](const fs::path& directory, const TrainingResult& result) {
                    if (completed(result)) {
                      tolerated += result.events->named(event::kCheckpointFailed).empty() ? 0 : 1;
                      EXPECT_EQ(final_hash(directory), undisturbed_hash());
                      return;
                    }
                    // At the start, before the first step, or in the last save.
                    for (const auto& outcome : result.outcomes) {
                      ASSERT_FALSE(outcome) << "one rank failed alone";
                      EXPECT_EQ(outcome.error().message, result.outcomes[0].error().message);
                    }
                    not_stored += result.outcomes[0].error().code == ErrorCode::kNotStored ? 1 : 0;
                    const auto found = sound_checkpoints(directory);
                    const TrainingResult resumed = train(short_run(directory, posix_file_ops(), 2));
                    ASSERT_TRUE(completed(resumed));
                    EXPECT_EQ(resumed.events->named(event::kResumed).empty(), found.empty());
                    EXPECT_EQ(final_hash(directory), undisturbed_hash());
                    expect_no_debris(directory);
                  });
  }
  EXPECT_GT(tolerated, 0);
  EXPECT_GT(not_stored, 0);
}

// Starting again would meet the same, so it is not a crash.
TEST(BackgroundSave, ADirectoryThatRefusesTheFirstWriteIsToldBeforeTheFirstStep) {
  for (const int error_number : {EROFS, EACCES, ENOSPC}) {
    const TemporaryDirectory directory;
    FaultyFileOps ops(FaultyFileOps::Mode::kErrorOnce, 1, error_number);
    const TrainingResult result = train(short_run(directory.path(), ops));
    for (const auto& outcome : result.outcomes) {
      ASSERT_FALSE(outcome);
      EXPECT_EQ(outcome.error().code, ErrorCode::kNotStored);
      EXPECT_EQ(outcome.error().message,
                fmt::format("no checkpoint can be stored in {0}: cannot create {0}/generation: {1}",
                            directory.path().string(), errno_text(error_number)));
    }
    EXPECT_THAT(result.events->named(event::kStep), IsEmpty());
  }
}

TEST(BackgroundSave, ADamagedCheckpointThatCannotBeMovedAwayIsToldBeforeTheFirstStep) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(completed(train(short_run(directory.path(), posix_file_ops()))));
  const fs::path newest = directory.path() / checkpoint::step_directory_name(10);
  fs::resize_file(newest / checkpoint::kManifestFile, 10);
  FaultyFileOps ops(FaultyFileOps::Mode::kDiskFull, 1, EROFS);
  TrainingRun again = short_run(directory.path(), ops);  // the same attempt: its fence is there already
  const TrainingResult result = train(again);
  for (const auto& outcome : result.outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kNotStored);
    EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("no checkpoint can be stored in "));
    EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("Read-only file system"));
  }
  EXPECT_TRUE(fs::exists(newest / checkpoint::kMarkerFile));
}

TEST(BackgroundSave, DyingAtAnyFileOperationLeavesASoundCheckpointOrNone) {
  int resumed_runs = 0;
  for_each_call(FaultyFileOps::Mode::kDeath, EIO, 5,
                [&](const fs::path& directory, const TrainingResult& result) {
                  const auto found = sound_checkpoints(directory);
                  if (!result.events->named(event::kCheckpoint).empty()) {
                    EXPECT_FALSE(found.empty());
                  }
                  const TrainingResult resumed = train(short_run(directory, posix_file_ops(), 2));
                  ASSERT_TRUE(completed(resumed));
                  resumed_runs += resumed.events->named(event::kResumed).empty() ? 0 : 1;
                  EXPECT_EQ(resumed.events->named(event::kResumed).empty(), found.empty());
                  EXPECT_THAT(resumed.events->named(event::kCheckpointQuarantined), IsEmpty());
                  EXPECT_EQ(final_hash(directory), undisturbed_hash());
                  expect_no_debris(directory);
                });
  EXPECT_GT(resumed_runs, 0);
}

// Holds up every write until it is opened.
class GatedFileOps final : public testing::ForwardingFileOps {
 public:
  explicit GatedFileOps(bool open) : open_(open) {}
  void open_gate() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool timed_out() const { return timed_out_; }

  ssize_t write(int fd, const void* data, std::size_t bytes) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::minutes(1), [&] { return open_; })) timed_out_ = true;
    return ForwardingFileOps::write(fd, data, bytes);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_;
  bool timed_out_ = false;
};

TEST(BackgroundSave, StepsGoOnWhileASaveIsInFlightAndThereIsNeverASecondOne) {
  const TemporaryDirectory directory;
  GatedFileOps ops(false);
  TrainingRun run = short_run(directory.path(), ops);
  // The fence is written at the start, before the first step.
  fs::create_directories(directory.path());
  ASSERT_TRUE(publish_file(posix_file_ops(), directory.path() / checkpoint::kFenceFile, "1\n"));
  run.options.checkpoint_every_steps = 1;
  // The first save, begun after step 1, cannot end before step 6 is done.
  run.on_event = [&](const json& e) {
    if (e.at("event") == event::kStep && e.at("step") == 6) ops.open_gate();
  };
  const TrainingResult result = train(run);
  ASSERT_TRUE(completed(result)) << result.outcomes[0].error().message;
  EXPECT_FALSE(ops.timed_out());
  const auto begun = result.events->named(event::kCheckpointBegun);
  const auto ended = result.events->named(event::kCheckpoint);
  ASSERT_EQ(begun.size(), ended.size());
  ASSERT_GE(ended.size(), 2u);
  EXPECT_EQ(ended[0].at("step"), 1);
  EXPECT_GE(ended[0].at("steps_meanwhile"), 6);
  for (std::size_t i = 0; i < begun.size(); ++i) {
    EXPECT_EQ(begun[i].at("step"), ended[i].at("step"));
    if (i == 0) continue;
    // The next one, which was due all the time, begins right after the end of the one before.
    const bool is_last = begun[i].at("step") == 10;
    const auto ended_at = ended[i - 1].at("step").get<int>() + ended[i - 1].at("steps_meanwhile").get<int>();
    if (!is_last) {
      EXPECT_EQ(begun[i].at("step"), ended_at);
    }
  }
  EXPECT_EQ(final_hash(directory.path()), undisturbed_hash());
}

// Training waits for nothing but the copy: with a disk that does nothing, every step is done.
TEST(BackgroundSave, ASaveThatDoesNotMoveHoldsUpNoStep) {
  const TemporaryDirectory directory;
  GatedFileOps ops(false);
  TrainingRun run = short_run(directory.path(), ops);
  ASSERT_TRUE(publish_file(posix_file_ops(), directory.path() / checkpoint::kFenceFile, "1\n"));
  run.options.checkpoint_every_steps = 1;
  run.options.checkpoint_timeout = std::chrono::minutes(1);
  int stored_before_the_last_step = 0;
  run.on_event = [&](const json& e) {
    if (e.at("event") == event::kStep && e.at("step") == 10) {
      stored_before_the_last_step = static_cast<int>(sound_checkpoints(directory.path()).size());
      ops.open_gate();
    }
  };
  const TrainingResult result = train(run);
  ASSERT_TRUE(completed(result)) << result.outcomes[0].error().message;
  EXPECT_FALSE(ops.timed_out());
  EXPECT_EQ(stored_before_the_last_step, 0);
  const auto saved = result.events->named(event::kCheckpoint);
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].at("step"), 1);
  EXPECT_EQ(saved[0].at("steps_meanwhile"), 8)
      << "all but the one before it and the last, which waits for it";
  EXPECT_EQ(saved[1].at("step"), 10);
  EXPECT_EQ(final_hash(directory.path()), undisturbed_hash());
}

// A slow disk is not a lost rank: heartbeats go on.
class SlowFileOps final : public testing::ForwardingFileOps {
 public:
  explicit SlowFileOps(milliseconds delay) : delay_(delay) {}
  int fsync(int fd) override {
    std::this_thread::sleep_for(delay_);
    return ForwardingFileOps::fsync(fd);
  }

 private:
  milliseconds delay_;
};

TEST(BackgroundSave, ASaveThatTakesSeveralPeerTimeoutsIsWaitedForAtTheEnd) {
  const TemporaryDirectory directory;
  SlowFileOps ops(milliseconds(300));  // at each of seven fsyncs or so
  TrainingRun run = short_run(directory.path(), ops);
  run.options.peer_timeout = milliseconds(700);
  run.options.checkpoint_timeout = std::chrono::minutes(1);
  run.options.checkpoint_every_steps = 6;
  const TrainingResult result = train(run);
  ASSERT_TRUE(completed(result)) << result.outcomes[0].error().message;
  const auto saved = result.events->named(event::kCheckpoint);
  ASSERT_EQ(saved.size(), 2u);
  for (const json& e : saved) EXPECT_GT(e.at("seconds").get<double>(), 2 * 0.7);
  EXPECT_EQ(final_hash(directory.path()), undisturbed_hash());
}

TEST(BackgroundSave, ASaveThatDoesNotEndInTimeIsTheRunsFailureAtTheEnd) {
  const TemporaryDirectory directory;
  GatedFileOps ops(true);
  TrainingRun run = short_run(directory.path(), ops);
  ASSERT_TRUE(completed(train(run)));
  GatedFileOps stuck(false);
  TrainingRun again = short_run(directory.path(), stuck, 2);
  fs::remove_all(directory.path() / checkpoint::step_directory_name(10));
  ASSERT_TRUE(publish_file(posix_file_ops(), directory.path() / checkpoint::kFenceFile, "2\n"));
  again.on_event = [&](const json& e) {
    // It said so; now the threads may go, so that the test can end.
    if (e.at("event") == event::kCheckpointFailed) stuck.open_gate();
  };
  const TrainingResult result = train(again);
  for (const auto& outcome : result.outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kNotStored) << outcome.error().message;
    // Where the first run's saves left off depends on how quick the disk was: the stuck save is the one of
    // step 6, or the last one.
    EXPECT_THAT(
        outcome.error().message,
        ::testing::AnyOf(::testing::HasSubstr("the save of step 6 does not end"),
                         ::testing::HasSubstr("the checkpoint of step 10 is not stored after waiting")));
    EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("the last checkpoint is"));
  }
}

}  // namespace
}  // namespace muster
