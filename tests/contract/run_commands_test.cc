// muster list, status, logs and rm as users call them, on runs that this test wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "common/run_contract.h"
#include "launcher/lease.h"
#include "launcher/run_index.h"
#include "tests/support/eventually.h"
#include "tests/support/forked_process.h"
#include "tests/support/run_fixture.h"
#include "tests/support/subprocess.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ForkedProcess;
using ::testing::HasSubstr;
using testing::Pipe;
using testing::ProgramResult;
using testing::run_program;
using testing::RunFixture;

class RunCommandsTest : public ::testing::Test {
 protected:
  static ProgramResult muster(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), testing::built_program("muster"));
    return run_program(arguments);
  }

  static void append(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::app) << text;
  }

  RunDirectory finished_run() const {
    RunDirectory run = fixture_.create("finished");
    RunFixture::write_journal(
        run,
        {{{"event", "run_started"}},
         {{"event", "attempt_started"}, {"attempt", 1}},
         {{"event", "step"}, {"generation", 1}, {"step", 10}, {"total_steps", 10}, {"loss", 0.25}},
         {{"event", "evaluation"}, {"step", 10}, {"accuracy", 0.975}, {"loss", 0.1}},
         {{"event", "finished"}, {"step", 10}, {"result", {{"test_accuracy", 0.975}}}},
         {{"event", "attempt_ended"},
          {"attempt", 1},
          {"verdict", {{"cause", "done"}, {"explanation", "all ranks left with 0"}, {"budget", "none"}}}},
         {{"event", "run_ended"}, {"state", "done"}, {"exit_code", 0}}});
    return run;
  }

  RunFixture fixture_;
};

TEST_F(RunCommandsTest, ListShowsEveryRunAndItsState) {
  EXPECT_THAT(muster({"list"}).out, HasSubstr("no runs yet"));
  const RunDirectory done = finished_run();
  const RunDirectory interrupted = fixture_.create("interrupted");
  RunFixture::write_journal(interrupted, {{{"event", "run_started"}}});
  const RunDirectory lost = fixture_.create("lost");
  fs::remove_all(lost.path);
  const RunDirectory damaged = fixture_.create("damaged");
  std::ofstream(damaged.run_info()) << "{";
  const RunDirectory running = fixture_.create("running");
  const auto lease = Lease::acquire(running.path);

  const ProgramResult table = muster({"list"});
  EXPECT_EQ(table.exit_code, 0) << table;
  const auto line_of = [&](const RunDirectory& run) {
    const std::size_t begin = table.out.find(run.run_id);
    return begin == std::string::npos ? "" : table.out.substr(begin, table.out.find('\n', begin) - begin);
  };
  EXPECT_THAT(line_of(done), HasSubstr("COMPLETED"));
  EXPECT_THAT(line_of(done), HasSubstr("10/10"));
  EXPECT_THAT(line_of(interrupted), HasSubstr("INTERRUPTED"));
  EXPECT_THAT(line_of(lost), HasSubstr("MISSING"));
  EXPECT_THAT(line_of(damaged), HasSubstr("UNREADABLE"));
  EXPECT_THAT(line_of(running), HasSubstr("RUNNING"));
  EXPECT_LT(table.out.find(running.run_id), table.out.find(done.run_id));  // newest first

  const json all = json::parse(muster({"list", "--json"}).out);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].at("run"), running.run_id);
  EXPECT_EQ(all[0].at("holder").at("pid"), ::getpid());
  EXPECT_EQ(all[4].at("result").at("test_accuracy"), 0.975);
}

TEST_F(RunCommandsTest, StatusTellsWhatBecameOfARun) {
  const RunDirectory run = finished_run();
  const ProgramResult text = muster({"status", "finished"});
  EXPECT_EQ(text.exit_code, 0) << text;
  for (const char* part : {"COMPLETED", "step 10 of 10", "accuracy 97.50 %", "done: all ranks left with 0",
                           "test_accuracy", "/tasks/finished.yaml"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  const json status = json::parse(muster({"status", run.run_id, "--json"}).out);
  EXPECT_EQ(status.at("state"), "COMPLETED");
  EXPECT_EQ(status.at("attempts")[0].at("verdict").at("cause"), "done");
  EXPECT_EQ(json::parse(muster({"status", run.path.string(), "--json"}).out), status);
}

TEST_F(RunCommandsTest, AnUnknownRunIsNotFoundAndTheNearestAreNamed) {
  const RunDirectory run = finished_run();
  for (const char* command : {"status", "logs", "rm"}) {
    const ProgramResult result = muster({command, "finisht"});
    EXPECT_EQ(result.exit_code, contract::kMusterNotFound) << result;
    EXPECT_THAT(result.err, HasSubstr(run.run_id));
    EXPECT_EQ(muster({command}).exit_code, contract::kMusterUsage);
    EXPECT_EQ(muster({command, "finished", "--no-such-option"}).exit_code, contract::kMusterUsage);
  }
  finished_run();
  EXPECT_EQ(muster({"status", "finished-"}).exit_code, contract::kMusterUsage);  // fits two
}

TEST_F(RunCommandsTest, LogsOfTheLastAttemptByRank) {
  const RunDirectory run = finished_run();
  EXPECT_EQ(muster({"logs", "finished"}).exit_code, contract::kMusterNotFound);
  append(run.logs(1) / "rank-0.log", "first attempt\n");
  append(run.logs(2) / "rank-0.log", "a\nb\nc\n");
  append(run.logs(2) / "rank-1.log", "x\ny");
  append(run.logs(2) / "launcher.log", "mpirun says\n");
  EXPECT_EQ(muster({"logs", "finished"}).out, "[launcher] mpirun says\n[0] a\n[0] b\n[0] c\n[1] x\n[1] y\n");
  EXPECT_EQ(muster({"logs", "finished", "--attempt", "1"}).out, "[0] first attempt\n");
  EXPECT_EQ(muster({"logs", "finished", "--rank", "1"}).out, "x\ny\n");
  EXPECT_EQ(muster({"logs", "finished", "--tail", "1"}).out, "[launcher] mpirun says\n[0] c\n[1] y\n");
  EXPECT_EQ(muster({"logs", "finished", "-f", "--rank", "0"}).out, "a\nb\nc\n");  // over: does not wait
  for (const auto& wrong :
       std::vector<std::vector<std::string>>{{"--attempt", "3"}, {"--rank", "2"}, {"--rank", "-1"}}) {
    const ProgramResult result = muster({"logs", "finished", wrong[0], wrong[1]});
    EXPECT_EQ(result.exit_code, contract::kMusterNotFound) << result;
  }
}

// The reader follows rotation and a restart, and ends when the run lets go of its lease.
TEST_F(RunCommandsTest, LogsFollowARunToItsEnd) {
  const RunDirectory run = fixture_.create("followed");
  const fs::path shown = fixture_.root() / "shown";
  auto lease = Lease::acquire(run.path);
  ASSERT_TRUE(lease);
  ForkedProcess reader([&] {
    ::dup2(::open(shown.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644), STDOUT_FILENO);
    testing::become({testing::built_program("muster"), "logs", "-f", "followed"}, {});
    return 127;
  });
  const auto wait_for = [&](const std::string& text) {
    return testing::eventually([&] {
      const auto so_far = read_text_file(shown);
      return so_far && so_far->find(text) != std::string::npos;
    });
  };
  append(run.logs(1) / "rank-0.log", "one\n");
  ASSERT_TRUE(wait_for("[0] one\n"));
  append(run.logs(1) / "rank-0.log", "two\n");
  fs::rename(run.logs(1) / "rank-0.log", run.logs(1) / "rank-0.log.1");
  append(run.logs(1) / "rank-0.log", "three\n");
  ASSERT_TRUE(wait_for("[0] two\n[0] three\n"));
  append(run.logs(1) / "rank-1.log", "other rank\n");
  append(run.logs(2) / "rank-0.log", "again\n");
  ASSERT_TRUE(wait_for("[1] other rank\n==> attempt 2 <==\n[0] again\n"));
  append(run.logs(2) / "rank-0.log", "last words");
  lease->release();
  const int status = reader.wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(wait_for("[0] last words\n"));
}

TEST_F(RunCommandsTest, RmRemovesARunAndItsEntry) {
  const RunDirectory run = finished_run();
  const RunDirectory other = fixture_.create("other");
  append(run.checkpoints() / "step-10" / "data", "weights");
  const ProgramResult result = muster({"rm", "finished"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_FALSE(fs::exists(run.path));
  EXPECT_TRUE(fs::exists(other.path));
  EXPECT_EQ(std::distance(fs::directory_iterator(fixture_.root()), fs::directory_iterator()), 1);
  EXPECT_EQ(indexed_runs().value().size(), 1u);
}

TEST_F(RunCommandsTest, RmRefusesWhileARunIsHeldUnlessForced) {
  const RunDirectory run = finished_run();
  auto lease = Lease::acquire(run.path);
  ASSERT_TRUE(lease);
  const ProgramResult refused = muster({"rm", "finished"});
  EXPECT_EQ(refused.exit_code, contract::kMusterLeaseHeld) << refused;
  EXPECT_THAT(refused.err, HasSubstr("pid " + std::to_string(::getpid())));
  EXPECT_TRUE(fs::exists(run.run_info()));
  EXPECT_TRUE(lease->renew());
}

TEST_F(RunCommandsTest, RmByForceEndsTheHolderFirst) {
  const RunDirectory run = finished_run();
  Pipe held;
  ForkedProcess holder([&] {
    const auto lease = Lease::acquire(run.path);
    held.put(lease ? 'y' : 'n');
    for (;;) ::pause();
    return 0;
  });
  ASSERT_EQ(held.take(), 'y');
  const ProgramResult forced = muster({"rm", "finished", "--force"});
  EXPECT_EQ(forced.exit_code, 0) << forced;
  EXPECT_FALSE(fs::exists(run.path));
  const int status = holder.wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
}

TEST_F(RunCommandsTest, OutputThatCannotBeWrittenIsAnError) {
  finished_run();
  for (const char* command : {"list", "status finished", "list --json", "--version", "--help"}) {
    const ProgramResult result = run_program(
        {"/bin/sh", "-c", fmt::format("{} {} >/dev/full", testing::built_program("muster"), command)});
    EXPECT_EQ(result.exit_code, contract::kMusterIo) << command << "\n" << result;
    EXPECT_THAT(result.err, HasSubstr("standard output")) << command;
  }
}

TEST_F(RunCommandsTest, RmOfARunThatIsGoneOrReplacedRemovesOnlyTheEntry) {
  const RunDirectory gone = fixture_.create("gone");
  fs::remove_all(gone.path);
  EXPECT_EQ(muster({"rm", "gone"}).exit_code, 0);
  EXPECT_TRUE(indexed_runs().value().empty());

  const RunDirectory replaced = fixture_.create("replaced");
  fs::remove_all(replaced.path);
  append(replaced.path / "precious", "not ours");
  EXPECT_EQ(muster({"rm", "replaced"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(replaced.path / "precious"));

  const RunDirectory damaged = fixture_.create("damaged");
  std::ofstream(damaged.run_info()) << "{";
  EXPECT_EQ(muster({"rm", "damaged"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(damaged.path));
}

}  // namespace
}  // namespace muster
