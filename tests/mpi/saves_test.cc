// Checkpoints of a real `muster run`: asked for from outside, at a stop that one rank was told of, on a file
// system that fills up, and on one without locks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "common/run_contract.h"
#include "common/unique_fd.h"
#include "tests/mpi/muster_run.h"
#include "tests/support/command.h"
#include "tests/support/eventually.h"
#include "tests/support/run_under_test.h"

namespace muster {
namespace {

namespace event = contract::event;
namespace fs = std::filesystem;
using nlohmann::json;
using testing::built_program;
using testing::CommandResult;
using ::testing::ContainsRegex;
using testing::demanding_task;
using ::testing::HasSubstr;
using testing::run_command;
using testing::RunUnderTest;

constexpr int kEpochs = 10;  // of 24 steps

// `text` with something else in the place of `found`.
std::string with(std::string text, const std::string& found, const std::string& instead) {
  const std::size_t at = text.find(found);
  EXPECT_NE(at, std::string::npos) << found;
  return text.replace(at, found.size(), instead);
}

std::string task_with_checkpoint(const std::string& settings, int epochs = kEpochs) {
  return with(demanding_task(2, epochs), "checkpoint: {every_steps: 20}", "checkpoint: {" + settings + "}");
}

std::string undisturbed_hash() {
  static const std::string hash = [] {
    RunUnderTest run(demanding_task(1, kEpochs));
    EXPECT_EQ(run.run({"--quiet"}), 0) << run.output();
    return run.hash();
  }();
  return hash;
}

CommandResult checkpoint_command(const std::string& action, const fs::path& where,
                                 const std::string& option = "--json") {
  return run_command({built_program("muster"), "checkpoint", action, where.string(), option});
}

bool all_verify(const RunUnderTest& run) {
  const CommandResult result = checkpoint_command("verify", run.run_directory());
  return result.exit_code == 0 && !json::parse(result.output).empty();
}

// ---- Asked for ----------------------------------------------------------------------------------------

TEST(CheckpointNow, SavesAtOnceAndSaysWhere) {
  // Without a line for each sample, which the journal could not keep up with.
  RunUnderTest run(with(task_with_checkpoint("every_steps: 1000000, keep_best: false", 100000),
                        "log_samples: true", "log_samples: false"));
  run.start();
  ASSERT_TRUE(run.wait_for([](const json& e) { return e.at("event") == event::kStep; })) << run.output();
  const CommandResult first = checkpoint_command("now", run.run_directory(), "--timeout=60s");
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_THAT(first.output, ContainsRegex("/checkpoints/step-[0-9]+\n$"));
  const fs::path path = first.output.substr(0, first.output.size() - 1);
  EXPECT_EQ(checkpoint_command("verify", path).exit_code, 0);
  const CommandResult second = checkpoint_command("now", run.run_directory(), "--json");
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_GT(json::parse(second.output).at("checkpoint").get<std::string>(), path.string());
  EXPECT_TRUE(fs::is_empty(run.run_directory() / "requests"));
  ::kill(run.pid(), SIGINT);
  EXPECT_EQ(run.wait(), contract::kMusterStopped) << run.output();
  json last_save;
  for (const json& e : run.events()) {
    if (e.at("event") == event::kCheckpoint) last_save = e;
  }
  EXPECT_THAT(run.output(), ContainsRegex("stopped as asked; saved at step " + last_save.at("step").dump() +
                                          "; continue with: muster run /.*/task.yaml\n"));

  const CommandResult late = checkpoint_command("now", run.run_directory());
  EXPECT_EQ(late.exit_code, contract::kMusterUnavailable);
  EXPECT_THAT(late.errors, HasSubstr("is STOPPED; only a run that is going on can save"));
  EXPECT_EQ(checkpoint_command("now", "no-such-run").exit_code, contract::kMusterNotFound);
  EXPECT_EQ(checkpoint_command("now", run.run_directory(), "--timeout=soon").exit_code,
            contract::kMusterUsage);
}

TEST(CheckpointNow, AProgramThatTakesNoRequestsIsAnErrorAtOnce) {
  testing::TaskFolder task(
      "#!/usr/bin/env python3\nimport signal\nprint('here', flush=True)\nsignal.pause()\n");
  task.start();
  task.rank_pid(0, 1);
  const CommandResult result = checkpoint_command("now", task.run_directory());
  EXPECT_EQ(result.exit_code, contract::kMusterUnavailable) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("takes no requests; only muster-train does"));
  task.signal(SIGKILL);
  task.wait();
}

// ---- Told to stop -------------------------------------------------------------------------------------

TEST(StopSignal, ToAnyOneRankMakesAllOfThemSaveAndLeave) {
  RunUnderTest run(
      with(demanding_task(3, kEpochs), "schedule:\n  retry:", "schedule:\n  stop_signal: SIGUSR2\n  retry:"));
  run.start();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const int rank = 3 - attempt;
    ASSERT_TRUE(run.wait_for([&](const json& e) {
      return e.at("event") == event::kSamples && e.at("generation") == attempt && e.at("rank") == rank;
    })) << run.output();
    ::kill(run.rank_pid(rank), SIGUSR2);
    ASSERT_TRUE(run.wait_for([&](const json& e) {
      return e.at("event") == event::kAttemptEnded && e.at("attempt") == attempt;
    })) << run.output();
  }
  ASSERT_EQ(run.wait(), 0) << run.output();
  std::map<std::int64_t, std::int64_t> stopped_at;  // by attempt
  for (const json& e : run.events()) {
    if (e.at("event") == event::kStopSeen) stopped_at[e.at("generation")] = e.at("step");
    if (e.at("event") == event::kResumed) {
      EXPECT_EQ(e.at("step"), stopped_at.at(e.at("generation").get<int>() - 1));
    }
    if (e.at("event") == event::kAttemptEnded && e.at("attempt") <= 3) {
      EXPECT_EQ(e.at("verdict").at("cause"), "stopped");
    }
  }
  EXPECT_EQ(stopped_at.size(), 3u);
  EXPECT_EQ(run.hash(), undisturbed_hash());
}

// ---- A file system that fills up ----------------------------------------------------------------------

// A run of which the checkpoints lie on a tmpfs of its own, which only this process and its children see.
class OwnFileSystem : public ::testing::Test {
 protected:
  static constexpr const char* kTmpfsSize = "size=6m";

  // False: this test cannot be done here.
  static bool make_mount_namespace() {
    static const bool made =
        ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    return made;
  }

  void SetUp() override {
    if (!make_mount_namespace()) GTEST_SKIP() << "needs the right to mount a tmpfs";
  }
  void TearDown() override {
    if (!mounted_.empty()) ::umount2(mounted_.c_str(), MNT_DETACH);
  }

  // A run that has begun, saved and stopped; what it saves from now on goes to the tmpfs.
  void prepare(const std::string& task) {
    RunUnderTest& run = run_.emplace(task);
    run.start();
    ASSERT_TRUE(run.wait_for([](const json& e) { return e.at("event") == event::kCheckpoint; }));
    ::kill(run.pid(), SIGINT);
    ASSERT_EQ(run.wait(), contract::kMusterStopped) << run.output();
    const fs::path checkpoints = run.run_directory() / "checkpoints";
    const fs::path aside = run.run_directory() / "aside";
    fs::rename(checkpoints, aside);
    fs::create_directory(checkpoints);
    ASSERT_EQ(::mount("tmpfs", checkpoints.c_str(), "tmpfs", 0, kTmpfsSize), 0);
    mounted_ = checkpoints;
    fs::copy(aside, checkpoints, fs::copy_options::recursive);
  }

  // The same, and it goes on, and has saved there.
  void begin(const std::string& task) {
    prepare(task);
    if (HasFatalFailure()) return;
    run_->start();
    ASSERT_TRUE(run_->wait_for([](const json& e) {
      return e.at("event") == event::kCheckpoint && e.at("generation") == 2;
    })) << run_->output();
  }

  // Somebody else's file takes all the space.
  void fill() const {
    const UniqueFd file(::open(filler().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    const std::string block(1 << 16, 'x');
    while (::write(file.get(), block.data(), block.size()) > 0) continue;
    struct statvfs info {};
    ASSERT_EQ(::statvfs(mounted_.c_str(), &info), 0);
    ASSERT_LT(info.f_bavail * info.f_frsize, block.size());
  }
  void make_room() const { fs::remove(filler()); }

  // Refused for as long as a file is open for writing there.
  void make_read_only(bool read_only) const {
    const unsigned long flags = MS_REMOUNT | (read_only ? MS_RDONLY : 0);
    ASSERT_TRUE(testing::eventually(
        [&] { return ::mount("tmpfs", mounted_.c_str(), "tmpfs", flags, kTmpfsSize) == 0; },
        std::chrono::seconds(20), std::chrono::milliseconds(1)));
  }

  bool saves_fail() {
    return run_->wait_for([](const json& e) { return e.at("event") == event::kCheckpointFailed; });
  }

  std::size_t attempts() {
    const auto& events = run_->events();
    return static_cast<std::size_t>(std::count_if(
        events.begin(), events.end(), [](const json& e) { return e.at("event") == event::kAttemptStarted; }));
  }

  std::optional<RunUnderTest> run_;  // ends after TearDown(), which unmounts

 private:
  fs::path filler() const { return mounted_ / "filler"; }

  fs::path mounted_;
};
using FullFileSystem = OwnFileSystem;
using ReadOnlyFileSystem = OwnFileSystem;

TEST_F(FullFileSystem, TrainingGoesOnAndEndsWellOnceThereIsRoomAgain) {
  begin(demanding_task(2, kEpochs));
  if (HasFatalFailure()) return;
  RunUnderTest& run = *run_;
  fill();
  ASSERT_TRUE(saves_fail()) << run.output();
  EXPECT_TRUE(all_verify(run)) << "the old checkpoints are untouched";
  make_room();
  ASSERT_EQ(run.wait(), 0) << run.output();
  EXPECT_THAT(run.output(),
              ContainsRegex("checkpoint of step [0-9]+ is not stored: rank [01]: .*training goes on"));
  EXPECT_THAT(run.output(), HasSubstr("checkpoints are stored again"));
  EXPECT_TRUE(all_verify(run));
  EXPECT_EQ(run.hash(), undisturbed_hash());
}

TEST_F(FullFileSystem, AStateThatCannotBeStoredIsAFailureThatNamesTheLastCheckpoint) {
  begin(task_with_checkpoint("every_steps: 20, timeout: 1s"));
  if (HasFatalFailure()) return;
  RunUnderTest& run = *run_;
  fill();
  ASSERT_TRUE(saves_fail()) << run.output();
  EXPECT_EQ(run.wait(), contract::kExitNotStored) << run.output();
  EXPECT_THAT(run.output(), ContainsRegex("the last checkpoint is .*/checkpoints/step-[0-9]+"));
  EXPECT_TRUE(all_verify(run));
  EXPECT_EQ(attempts(), 2u) << "starting again would only redo the work";
  // With room, the same command ends the run.
  make_room();
  ASSERT_EQ(run.run(), 0) << run.output();
  EXPECT_EQ(run.hash(), undisturbed_hash());
}

// ---- Begun with another run's parameters --------------------------------------------------------------

TEST(InitFrom, ThatIsGoneMattersOnlyUntilTheRunHasACheckpoint) {
  const testing::TemporaryDirectory directory;
  const fs::path other = directory.path() / "other";
  RunUnderTest donor(demanding_task(1, 1));
  ASSERT_EQ(donor.run({"--quiet"}), 0) << donor.output();
  fs::copy(donor.run_directory() / "checkpoints", other, fs::copy_options::recursive);

  RunUnderTest run(
      with(demanding_task(2, kEpochs), "trainer:\n", "trainer:\n  init_from: " + other.string() + "\n"));
  run.start();
  ASSERT_TRUE(run.wait_for([](const json& e) { return e.at("event") == event::kInitialised; }))
      << run.output();
  ASSERT_TRUE(run.wait_for([](const json& e) { return e.at("event") == event::kCheckpoint; }))
      << run.output();
  ::kill(run.pid(), SIGINT);
  ASSERT_EQ(run.wait(), contract::kMusterStopped) << run.output();
  fs::remove_all(other);
  EXPECT_EQ(run.run({"--new"}), contract::kMusterNotFound) << run.output();
  EXPECT_THAT(run.output(), ContainsRegex("task.yaml:[0-9]+:3: trainer.init_from: " + other.string()));
  EXPECT_EQ(run.run(), 0) << run.output();
  EXPECT_TRUE(all_verify(run));
}

// ---- A file system that is read-only ------------------------------------------------------------------

TEST_F(ReadOnlyFileSystem, AtTheStartItEndsTheRunAtOnceAndSaysWhy) {
  prepare(demanding_task(2, kEpochs));
  if (HasFatalFailure()) return;
  RunUnderTest& run = *run_;
  make_read_only(true);
  EXPECT_EQ(run.run(), contract::kExitNotStored) << run.output();
  EXPECT_EQ(attempts(), 2u) << "starting again could not help";
  EXPECT_THAT(run.output(), ContainsRegex("no checkpoint can be stored in .*: Read-only file system"));
  EXPECT_TRUE(all_verify(run));
  make_read_only(false);
  ASSERT_EQ(run.run(), 0) << run.output();
  EXPECT_EQ(run.hash(), undisturbed_hash());
}

TEST_F(ReadOnlyFileSystem, InMidRunTrainingGoesOnAndSaysSo) {
  begin(demanding_task(2, kEpochs));
  if (HasFatalFailure()) return;
  RunUnderTest& run = *run_;
  make_read_only(true);
  ASSERT_TRUE(saves_fail()) << run.output();
  EXPECT_TRUE(all_verify(run)) << "the old checkpoints are untouched";
  make_read_only(false);
  ASSERT_EQ(run.wait(), 0) << run.output();
  EXPECT_EQ(attempts(), 2u);
  EXPECT_THAT(run.output(), ContainsRegex("checkpoint of step [0-9]+ is not stored: .*Read-only file "
                                          "system.*training goes on"));
  EXPECT_EQ(run.hash(), undisturbed_hash());
}

// ---- A file system without locks ----------------------------------------------------------------------

TEST(WithoutLocks, ARunIsSavedAndContinued) {
  const CommandResult control =
      run_command({"env", std::string("LD_PRELOAD=") + NO_LOCKS_LIBRARY, "flock", "/tmp", "true"});
  ASSERT_NE(control.exit_code, 0) << "the library does not take locks away";
  RunUnderTest run(demanding_task(2, kEpochs) + "env: {LD_PRELOAD: " + NO_LOCKS_LIBRARY + "}\n");
  ::setenv("LD_PRELOAD", NO_LOCKS_LIBRARY, 1);
  run.start();
  EXPECT_TRUE(run.wait_for([](const json& e) { return e.at("event") == event::kCheckpoint; }))
      << run.output();
  ::kill(run.pid(), SIGINT);
  EXPECT_EQ(run.wait(), contract::kMusterStopped) << run.output();
  EXPECT_EQ(run.run(), 0) << run.output();
  EXPECT_TRUE(all_verify(run));
  EXPECT_EQ(run.hash(), undisturbed_hash());
  ::unsetenv("LD_PRELOAD");
}

}  // namespace
}  // namespace muster
