// The guard with real processes: whatever happens, nothing of an attempt is left, and the status is exact.
#include "launcher/guard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "common/clock.h"
#include "launcher/process_tree.h"
#include "tests/support/command.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

using std::chrono::seconds;

class GuardTest : public ::testing::Test {
 protected:
  // A shell script as the guarded command. $DIR is the test's directory.
  Result<Guard> guard(const std::string& script) const {
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    GuardOptions options;
    options.muster_executable = testing::built_program("muster");
    options.command = {"bash", "-c", script};
    options.environment = {"PATH=/usr/bin:/bin", "DIR=" + directory_.path().string(),
                           "MUSTER_RUN_ID=" + run_id()};
    options.stdout_fd = null.get();
    options.stderr_fd = null.get();
    return Guard::spawn(options);
  }
  std::string run_id() const { return "guard-test-" + directory_.path().filename().string(); }

  static std::optional<ExitStatus> wait(Guard& guard) {
    const Deadline deadline = Deadline::after(seconds(40));
    std::optional<ExitStatus> status;
    while (!(status = guard.poll()) && !deadline.expired()) {
      pollfd entry{guard.fd(), POLLIN, 0};
      ::poll(&entry, 1, 100);
    }
    return status;
  }
  // The pid that the script wrote into a file of that name, once it is there.
  pid_t pid_from(const std::string& file) const {
    pid_t pid = -1;
    EXPECT_TRUE(testing::eventually([&] {
      std::ifstream in(directory_.path() / file);
      return in >> pid && in.get() == '\n';
    })) << file
        << " was not written";
    return pid;
  }
  static bool alive(pid_t pid) { return ::kill(pid, 0) == 0; }
  static bool gone_soon(pid_t pid) {
    return testing::eventually([&] { return !alive(pid); });
  }

  testing::TemporaryDirectory directory_;
};

// Leaves a process in a session of its own whose parent is gone, as daemons are made.
constexpr const char* kDaemonize = "setsid bash -c 'sleep 600 & echo $! > $DIR/daemon' ; ";

TEST_F(GuardTest, ReportsTheExitCodeExactly) {
  for (const int code : {0, 3, 85, 255}) {
    auto guarded = guard("exit " + std::to_string(code));
    ASSERT_TRUE(guarded) << guarded.error().message;
    EXPECT_EQ(wait(*guarded), (ExitStatus{code, 0}));
  }
}

TEST_F(GuardTest, ReportsTheSignalExactly) {
  auto guarded = guard("kill -SEGV $$");
  ASSERT_TRUE(guarded);
  EXPECT_EQ(wait(*guarded), (ExitStatus{0, SIGSEGV}));
}

TEST_F(GuardTest, PassesSignalsOn) {
  auto guarded = guard("trap 'exit 85' USR1; echo $$ > $DIR/pid; while :; do sleep 600 & wait; done");
  ASSERT_TRUE(guarded);
  pid_from("pid");
  ASSERT_TRUE(guarded->signal_command(SIGUSR1));
  EXPECT_EQ(wait(*guarded), (ExitStatus{85, 0}));
}

TEST_F(GuardTest, NothingIsLeftWhenTheCommandEnds) {
  auto guarded = guard(std::string(kDaemonize) + "sleep 600 & exit 4");
  ASSERT_TRUE(guarded);
  const pid_t daemon = pid_from("daemon");
  EXPECT_EQ(wait(*guarded), (ExitStatus{4, 0}));
  EXPECT_FALSE(alive(daemon));
}

TEST_F(GuardTest, ADaemonThatTheCommandWaitsForIsEnded) {
  // As mpirun does: it waits for the end of an output that the daemon holds on to.
  auto guarded = guard("read -r line < <(setsid sleep 600 &); exit 6");
  ASSERT_TRUE(guarded);
  EXPECT_EQ(wait(*guarded), (ExitStatus{6, 0}));
}

TEST_F(GuardTest, NothingIsLeftAfterAKillThatEverybodyIgnores) {
  auto guarded = guard(std::string(kDaemonize) +
                       "trap '' TERM INT HUP USR1; echo $$ > $DIR/pid; while :; do sleep 600 & wait; done");
  ASSERT_TRUE(guarded);
  const pid_t daemon = pid_from("daemon");
  const pid_t command = pid_from("pid");
  guarded->kill();
  EXPECT_EQ(wait(*guarded), (ExitStatus{0, SIGKILL}));
  EXPECT_FALSE(alive(daemon));
  EXPECT_FALSE(alive(command));
}

TEST_F(GuardTest, NothingIsLeftWhenTheCommandIsKilled) {
  auto guarded = guard(std::string(kDaemonize) + "echo $$ > $DIR/pid; sleep 600; sleep 600");
  ASSERT_TRUE(guarded);
  const pid_t daemon = pid_from("daemon");
  ::kill(pid_from("pid"), SIGKILL);
  EXPECT_EQ(wait(*guarded), (ExitStatus{0, SIGKILL}));
  EXPECT_FALSE(alive(daemon));
}

TEST_F(GuardTest, NothingIsLeftWhenTheGuardIsKilled) {
  auto guarded = guard(std::string(kDaemonize) + "echo $$ > $DIR/pid; sleep 600; sleep 600");
  ASSERT_TRUE(guarded);
  const pid_t daemon = pid_from("daemon");
  const pid_t command = pid_from("pid");
  ::kill(guarded->pid(), SIGKILL);
  EXPECT_EQ(wait(*guarded), (ExitStatus{0, SIGKILL}));
  EXPECT_FALSE(alive(daemon));
  EXPECT_FALSE(alive(command));
}

TEST_F(GuardTest, NothingIsLeftWhenTheOwnerIsKilled) {
  const pid_t owner = ::fork();
  if (owner == 0) {
    const auto guarded = guard(std::string(kDaemonize) +
                               "trap '' TERM; echo $$ > $DIR/pid; while :; do sleep 600 & wait; done");
    if (!guarded) ::_exit(1);
    for (;;) ::pause();
  }
  const pid_t daemon = pid_from("daemon");
  const pid_t command = pid_from("pid");
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_TRUE(gone_soon(daemon));
  EXPECT_TRUE(gone_soon(command));
}

TEST_F(GuardTest, DestroyingItEndsEverything) {
  pid_t daemon = -1;
  {
    auto guarded = guard(std::string(kDaemonize) + "sleep 600; sleep 600");
    ASSERT_TRUE(guarded);
    daemon = pid_from("daemon");
  }
  EXPECT_FALSE(alive(daemon));
}

TEST_F(GuardTest, ACommandThatIsNotThereIsAnError) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  GuardOptions options;
  options.muster_executable = testing::built_program("muster");
  options.command = {"no-such-command-anywhere"};
  options.environment = {"PATH=/usr/bin:/bin"};
  options.stdout_fd = null.get();
  options.stderr_fd = null.get();
  auto guarded = Guard::spawn(options);
  ASSERT_TRUE(guarded);
  EXPECT_EQ(wait(*guarded), (ExitStatus{127, 0}));
  EXPECT_THAT(guarded->start_error(), ::testing::HasSubstr("No such file"));
}

TEST_F(GuardTest, LeftoversOfARunAreFoundByTheirEnvironment) {
  // Started outside of any guard, by a process that goes away.
  const std::string id = run_id();
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);  // earlier guards set it: then the orphan would be ours
  const pid_t starter = ::fork();
  if (starter == 0) {
    if (::fork() == 0) {
      ::setsid();
      ::setenv("MUSTER_RUN_ID", id.c_str(), 1);
      ::execlp("sleep", "sleep", "600", nullptr);
      ::_exit(127);
    }
    ::_exit(0);
  }
  ::waitpid(starter, nullptr, 0);
  const Deadline deadline = Deadline::after(seconds(20));
  std::vector<pid_t> found;
  while (found.empty() && !deadline.expired()) found = processes_of_run(id);
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(processes_of_run(id + "x").empty());
  EXPECT_TRUE(processes_of_run(id.substr(0, id.size() - 1)).empty());
  EXPECT_TRUE(end_processes_of_run(id, seconds(0), Deadline::after(seconds(20))).empty());
  EXPECT_TRUE(gone_soon(found.front()));
}

}  // namespace
}  // namespace muster
