// `muster run` with real programs under a real mpirun: how runs end, and what is left of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sstream>

#include "common/json_fields.h"
#include "common/run_contract.h"
#include "launcher/process_tree.h"
#include "tests/mpi/muster_run.h"
#include "tests/support/command.h"
#include "tests/support/eventually.h"
#include "tests/support/subprocess.h"

namespace muster::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// What every program begins with.
constexpr const char* kPrologue = R"(
import os, signal, subprocess, sys
rank = int(os.environ["RANK"])
attempt = int(os.environ["MUSTER_ATTEMPT"])
def say(*words): print(*words, flush=True)
def linger():
    say("lingering")
    while True: signal.pause()
def meet():
    """Returns when the other of two ranks is here, too; a minute at most."""
    signal.alarm(60)
    place = os.path.join(os.environ["MUSTER_RUN_DIR"], f"meeting-{attempt}")
    try: os.mkfifo(place)
    except FileExistsError: pass
    open(place, "w" if rank == 0 else "r").close()
)";

std::string program(const std::string& body) { return kPrologue + body; }

json verdict_of(const TaskFolder& task, std::size_t attempt) {
  const auto ends = task.events("attempt_ended");
  return ends.size() < attempt ? json() : ends[attempt - 1].at("verdict");
}

// The attempt runs: each rank has said so.
void wait_until_lingering(const TaskFolder& task, int attempt) {
  ASSERT_TRUE(eventually([&] {
    return task.log(attempt, "rank-0.log").find("lingering") != std::string::npos &&
           task.log(attempt, "rank-1.log").find("lingering") != std::string::npos;
  })) << task.output();
}

void expect_nothing_left(const TaskFolder& task) {
  EXPECT_TRUE(eventually([&] { return task.processes().empty(); })) << "processes of the run are left";
}

TEST(MusterRun, ToTheEnd) {
  TaskFolder task(program(R"(
say("out", rank, os.environ["WORLD_SIZE"], os.environ["MUSTER_RUN_ID"])
print("err", rank, file=sys.stderr, flush=True)
)"));
  EXPECT_EQ(task.run(), 0) << task.output();
  EXPECT_THAT(task.output(), AllOf(HasSubstr("muster: done"), HasSubstr(task.run_id())));
  EXPECT_THAT(task.log(1, "rank-1.log"), AllOf(HasSubstr("out 1 2 " + task.run_id()), HasSubstr("err 1")));
  EXPECT_EQ(task.events("attempt_started").size(), 1U);
  EXPECT_EQ(task.events("run_ended").at(0).at("state"), "done");
  EXPECT_THAT(task.processes(), IsEmpty());

  EXPECT_EQ(task.run(), 0);
  EXPECT_THAT(task.output(), HasSubstr("already complete"));
  EXPECT_EQ(task.events("attempt_started").size(), 1U);

  const std::string first_run = task.run_id();
  EXPECT_EQ(task.run({"--new"}), 0);
  EXPECT_NE(task.run_id(), first_run);
}

TEST(MusterRun, ACrashThatRepeatsEndsTheRunWithItsCode) {
  TaskFolder task(program(R"(
if rank == 1:
    say("cannot divide by cucumber")
    sys.exit(3)
linger()
)"));
  EXPECT_EQ(task.run(), 3) << task.output();
  EXPECT_EQ(task.events("attempt_started").size(), 3U);
  EXPECT_EQ(verdict_of(task, 3).at("cause"), "application_error");
  EXPECT_EQ(verdict_of(task, 3).at("rank"), 1);
  EXPECT_EQ(task.events("run_ended").at(0).at("exit_code"), 3);
  EXPECT_THAT(task.output(),
              AllOf(HasSubstr("cannot divide by cucumber"), HasSubstr("rank-1.log"),
                    HasSubstr("rank 1 left with exit code 3"), HasSubstr("3 crashes in a row")));
  EXPECT_THAT(task.processes(), IsEmpty());
}

TEST(MusterRun, CheckpointsBetweenCrashesKeepTheRunAlive) {
  TaskFolder task(program(R"(
if attempt <= 4:
    if rank == 0: open(os.path.join(os.environ["MUSTER_CHECKPOINT_DIR"], str(attempt)), "w").write("x")
    sys.exit(3)
)"));
  EXPECT_EQ(task.run(), 0) << task.output();
  EXPECT_EQ(task.events("attempt_started").size(), 5U);
}

TEST(MusterRun, DoNotRetryIsObeyed) {
  TaskFolder task(program("sys.exit(78)"));
  EXPECT_EQ(task.run(), contract::kExitDoNotRetry);
  EXPECT_EQ(task.events("attempt_started").size(), 1U);
}

TEST(MusterRun, AKilledRankIsReplaced) {
  TaskFolder task(program("if attempt == 1: linger()"));
  task.start();
  wait_until_lingering(task, 1);
  ::kill(task.rank_pid(1, 1), SIGKILL);
  EXPECT_EQ(task.wait(), 0) << task.output();
  EXPECT_EQ(verdict_of(task, 1).at("cause"), "killed_by_signal");
  EXPECT_EQ(verdict_of(task, 1).at("rank"), 1);
  EXPECT_EQ(task.events("attempt_started").size(), 2U);
  expect_nothing_left(task);
}

TEST(MusterRun, AKilledMpirunIsReplaced) {
  TaskFolder task(program("if attempt == 1: linger()"));
  task.start();
  wait_until_lingering(task, 1);
  ::kill(parent_of(task.rank_pid(0, 1)), SIGKILL);
  EXPECT_EQ(task.wait(), 0) << task.output();
  EXPECT_EQ(verdict_of(task, 1).at("cause"), "node_failure");
  EXPECT_EQ(verdict_of(task, 1).at("budget"), "node_failure");
  expect_nothing_left(task);
}

// Open MPI removes its session files and shared memory only if it is not killed.
TEST(MusterRun, AKilledMpirunsScratchIsRemoved) {
  TaskFolder task(program(R"(
say("scratch", os.environ.get("OMPI_MCA_btl_vader_backing_directory"))
linger()
)"));
  task.start();
  wait_until_lingering(task, 1);
  const std::filesystem::path scratch = "/dev/shm/muster-" + task.run_id();
  EXPECT_THAT(task.log(1, "rank-0.log"), HasSubstr("scratch " + scratch.string()));
  EXPECT_FALSE(std::filesystem::is_empty(scratch)) << "Open MPI's session directory should be here";
  task.signal(SIGKILL);
  ::kill(parent_of(task.rank_pid(0, 1)), SIGKILL);
  EXPECT_EQ(task.wait(), 1000 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(scratch); }));
}

TEST(MusterRun, AKilledGuardIsReplaced) {
  TaskFolder task(program("if attempt == 1: linger()"));
  task.start();
  wait_until_lingering(task, 1);
  const pid_t first_rank = task.rank_pid(0, 1);
  const pid_t guard = parent_of(parent_of(first_rank));
  ASSERT_EQ(parent_of(guard), task.pid());
  ::kill(guard, SIGKILL);
  EXPECT_EQ(task.wait(), 0) << task.output();
  EXPECT_NE(::kill(first_rank, 0), 0);
  expect_nothing_left(task);
}

TEST(MusterRun, AKilledMusterLeavesNothingAndIsContinued) {
  // Deaf to everything that can be ignored, and with a daemon.
  TaskFolder task(program(R"(
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1): signal.signal(number, signal.SIG_IGN)
if attempt == 1:
    subprocess.Popen("sleep 600 & exec sleep 600", shell=True, start_new_session=True)
    linger()
say("went on")
)"));
  task.start();
  wait_until_lingering(task, 1);
  task.signal(SIGKILL);
  EXPECT_EQ(task.wait(), 1000 + SIGKILL);
  expect_nothing_left(task);
  const std::string run_id = task.run_id();

  EXPECT_EQ(task.run(), 0) << task.output();
  EXPECT_EQ(task.run_id(), run_id);
  EXPECT_THAT(task.output(), HasSubstr("continuing run " + run_id));
  EXPECT_THAT(task.log(2, "rank-0.log"), HasSubstr("went on"));
}

TEST(MusterRun, LeftoversAreEndedBeforeTheNextAttempt) {
  TaskFolder task(program(R"(
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1): signal.signal(number, signal.SIG_IGN)
if attempt == 1:
    subprocess.Popen("exec sleep 600", shell=True, start_new_session=True)
    linger()
)"));
  task.start();
  wait_until_lingering(task, 1);
  // muster and its guard die at once: nobody is there to clear away.
  const pid_t guard = parent_of(parent_of(task.rank_pid(0, 1)));
  task.signal(SIGSTOP);
  ::kill(guard, SIGKILL);
  task.signal(SIGKILL);
  EXPECT_EQ(task.wait(), 1000 + SIGKILL);
  EXPECT_FALSE(task.processes().empty()) << "the test needs leftovers";
  EXPECT_EQ(task.run(), 0) << task.output();
  EXPECT_THAT(task.processes(), IsEmpty());
}

constexpr const char* kStopsInOrder = R"(
def stop(number, frame):
    say("saved", number)
    meet()
    os._exit(85)
signal.signal(signal.SIGUSR1, stop)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if attempt == 1: linger()
)";

TEST(MusterRun, CtrlCStopsInOrderAndTheSameCommandGoesOn) {
  TaskFolder task(program(kStopsInOrder));
  task.start();
  wait_until_lingering(task, 1);
  task.signal(SIGINT);
  EXPECT_EQ(task.wait(), contract::kMusterStopped) << task.output();
  EXPECT_THAT(task.log(1, "rank-0.log"), HasSubstr("saved 10"));
  EXPECT_THAT(task.log(1, "rank-1.log"), HasSubstr("saved 10"));
  EXPECT_EQ(task.events("run_ended").at(0).at("state"), "stopped");
  EXPECT_EQ(task.events("signal").at(0).at("signal"), "SIGINT");
  expect_nothing_left(task);
  EXPECT_EQ(task.run(), 0) << task.output();
  EXPECT_EQ(task.events("attempt_started").size(), 2U);
}

TEST(MusterRun, SigtermAndSighupStopInOrderToo) {
  for (const int number : {SIGTERM, SIGHUP}) {
    TaskFolder task(program(kStopsInOrder));
    task.start();
    wait_until_lingering(task, 1);
    task.signal(number);
    EXPECT_EQ(task.wait(), contract::kMusterStopped) << task.output();
  }
}

TEST(MusterRun, AnotherStopSignalReachesTheRanks) {
  TaskFolder task(program(R"(
def stop(number, frame):
    say("saved", number)
    meet()
    os._exit(85)
signal.signal(signal.SIGUSR2, stop)
linger()
)"),
                  "schedule: {stop_signal: SIGUSR2}\n");
  task.start();
  wait_until_lingering(task, 1);
  task.signal(SIGINT);
  EXPECT_EQ(task.wait(), contract::kMusterStopped) << task.output();
  EXPECT_THAT(task.log(1, "rank-0.log"), HasSubstr("saved 12"));
  EXPECT_THAT(task.log(1, "rank-1.log"), HasSubstr("saved 12"));
}

TEST(MusterRun, TheSecondCtrlCKills) {
  TaskFolder task(program(R"(
signal.signal(signal.SIGUSR1, lambda number, frame: say("busy"))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
linger()
)"));
  task.start();
  wait_until_lingering(task, 1);
  task.signal(SIGINT);
  ASSERT_TRUE(eventually([&] { return task.log(1, "rank-1.log").find("busy") != std::string::npos; }));
  // An echo of the first within half a second does not count; a wish to kill is repeated until it is heard.
  ASSERT_TRUE(eventually([&] {
    task.signal(SIGINT);
    return task.output().find("killing the ranks") != std::string::npos;
  }));
  EXPECT_EQ(task.wait(), contract::kMusterKilled) << task.output();
  EXPECT_EQ(task.events("run_ended").at(0).at("state"), "killed");
  expect_nothing_left(task);
}

TEST(MusterRun, WhoIgnoresTheStopIsKilledAfterTheGrace) {
  TaskFolder task(program(R"(
for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
linger()
)"),
                  "schedule: {grace: 1s}\n");
  task.start();
  wait_until_lingering(task, 1);
  task.signal(SIGINT);
  EXPECT_EQ(task.wait(), contract::kMusterKilled) << task.output();
  EXPECT_THAT(task.output(), HasSubstr("within its grace"));
  EXPECT_EQ(task.events("attempt_ended").at(0).at("evidence").at("killed_by_muster"), "grace_over");
  expect_nothing_left(task);
}

TEST(MusterRun, AProgramThatDoesNotKnowTheSignalDiesOfIt) {
  TaskFolder task(program("linger()"));
  task.start();
  wait_until_lingering(task, 1);
  task.signal(SIGINT);
  EXPECT_EQ(task.wait(), contract::kMusterKilled) << task.output();
  EXPECT_THAT(task.output(), HasSubstr("does not handle the stop signal"));
}

TEST(MusterRun, DaemonsOfAProgramAreEndedWithIt) {
  TaskFolder task(program(R"(
# In a session of its own, deaf, without parent, and holding on to the output.
ready, end = os.pipe()
subprocess.Popen(["setsid", "bash", "-c", "trap '' TERM HUP INT; sleep 600 & echo >&%d; exec sleep 600" % end],
                 pass_fds=[end])
os.read(ready, 1)
)"));
  EXPECT_EQ(task.run(), 0) << task.output();
  EXPECT_THAT(task.processes(), IsEmpty());
}

TEST(MusterRun, OnlyOneMusterHoldsARun) {
  TaskFolder task(program(kStopsInOrder));
  task.start();
  wait_until_lingering(task, 1);
  const pid_t first = task.pid();
  EXPECT_EQ(task.run(), contract::kMusterLeaseHeld) << task.output();
  EXPECT_THAT(task.output(), HasSubstr(std::to_string(first)));
  ::kill(first, SIGKILL);
  expect_nothing_left(task);
  EXPECT_EQ(task.run(), 0) << "a dead owner loses the run: " << task.output();
}

TEST(MusterRun, RmByForceEndsItAndItsTerminalShowsNoComplaintsOfMpirun) {
  TaskFolder task(program(R"(
for number in (signal.SIGUSR1, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
linger()
)"));
  task.start();
  wait_until_lingering(task, 1);
  const std::string run_id = task.run_id();
  ProgramOptions options;
  options.set = {{"XDG_STATE_HOME", task.path("state").string()}};
  const ProgramResult removed = run_program({built_program("muster"), "rm", "--force", run_id}, options);
  EXPECT_EQ(removed.exit_code, 0) << removed;
  EXPECT_EQ(task.wait(), contract::kMusterKilled) << task.output();
  EXPECT_THAT(task.output(), HasSubstr("killed (killed by the user's second stop signal)"));
  EXPECT_THAT(task.output(), AllOf(Not(HasSubstr("mpirun")), Not(HasSubstr("last lines")))) << task.output();
  EXPECT_TRUE(task.run_id().empty()) << "the run is still there";
  EXPECT_THAT(processes_of_run(run_id), IsEmpty());
}

TEST(MusterRun, AChangedTaskIsRefusedWithTheDifference) {
  TaskFolder task(program(kStopsInOrder), "args: [\"1\"]\n");
  task.start();
  wait_until_lingering(task, 1);
  task.signal(SIGINT);
  ASSERT_EQ(task.wait(), contract::kMusterStopped);
  const std::string run_id = task.run_id();
  const std::string common = "task_name: test\nnum_workers: 2\nentry_point: program.py\ncheckpoint_path: " +
                             task.path("runs").string() + "\n";

  task.write("task.yaml", common + "args: [\"2\"]\n");
  EXPECT_EQ(task.run(), contract::kMusterTaskChanged);
  EXPECT_THAT(task.output(), AllOf(HasSubstr("args"), HasSubstr("--new"), HasSubstr("--accept-changes")));
  EXPECT_EQ(task.events("attempt_started").size(), 1U);
  EXPECT_EQ(task.run({"--accept-changes"}), 0) << task.output();
  EXPECT_EQ(task.run_id(), run_id);
  EXPECT_EQ(task.events("task_changed").size(), 1U);
}

TEST(MusterRun, JsonIsEventsAndNothingElse) {
  TaskFolder task(program(""));
  EXPECT_EQ(task.run({"--json"}), 0);
  std::istringstream lines(task.output());
  std::string last;
  for (std::string line; std::getline(lines, line); last = line) EXPECT_TRUE(json::accept(line)) << line;
  EXPECT_EQ(json::parse(last).at("event"), "run_ended");
}

TEST(MusterRun, QuietShowsTheResultOnly) {
  TaskFolder task(program(""));
  EXPECT_EQ(task.run({"--quiet"}), 0);
  EXPECT_TRUE(task.output().starts_with("muster: done")) << task.output();
}

TEST(MusterRun, TooFewSlotsAreRefusedWithNumbers) {
  TaskFolder task(program(""));
  task.write("hosts", "localhost slots=1\n");
  EXPECT_EQ(task.run({"--hostfile", task.path("hosts").string()}), contract::kMusterUnavailable);
  EXPECT_THAT(task.output(), AllOf(HasSubstr("1"), HasSubstr("2")));
}

TEST(MusterRun, AHostFileWithThisMachine) {
  TaskFolder task(program("say('rank', rank)"));
  task.write("hosts", "localhost slots=2\n");
  EXPECT_EQ(task.run({"--hostfile", task.path("hosts").string()}), 0) << task.output();
  EXPECT_THAT(task.log(1, "rank-1.log"), HasSubstr("rank 1"));
}

TEST(MusterRun, LogsKeepTheNewestWithinTheirLimit) {
  TaskFolder task(program(R"(
for i in range(3000): say("a line that is long enough to pass mpirun unharmed", i)
)"));
  EXPECT_EQ(task.run({"--log-limit", "10000"}), 0) << task.output();
  EXPECT_LE(task.log(1, "rank-0.log").size(), 10000U);
  EXPECT_LE(task.log(1, "rank-0.log.1").size(), 10000U);
  EXPECT_THAT(task.log(1, "rank-0.log"), HasSubstr("unharmed 2999"));
}

TEST(MusterRun, WithinAnEnclosingMpirunsEnvironment) {
  ::setenv("OMPI_COMM_WORLD_RANK", "7", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "9", 1);
  ::setenv("PMIX_RANK", "7", 1);
  ::setenv("RANK", "7", 1);
  TaskFolder task(program("say('rank', rank, 'of', os.environ['WORLD_SIZE'])"));
  EXPECT_EQ(task.run(), 0) << task.output();
  EXPECT_THAT(task.log(1, "rank-1.log"), HasSubstr("rank 1 of 2"));
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "RANK"})
    ::unsetenv(name);
}

}  // namespace
}  // namespace muster::testing
