// Real processes under mpirun that are killed, stopped, paused or just busy: who is called lost, by whom, and
// how soon. mpirun is told to leave the others alone, so that what they find out by themselves is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/file_ops.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kPeerTimeout{1500};
constexpr milliseconds kGenerous{60'000};

// Runs fault_rank on some ranks; at the end all of its processes are gone.
class RankGroup {
 public:
  RankGroup(const std::string& scenario, int size) : size_(size) {
    const std::string ranks = std::to_string(size);
    const std::string timeout = std::to_string(kPeerTimeout.count());
    const std::string directory = directory_.path().string();
    std::vector<const char*> argv{FAULT_MPIRUN,
                                  "--allow-run-as-root",
                                  "--oversubscribe",
                                  "--bind-to",
                                  "none",
                                  "--enable-recovery",
                                  "-np",
                                  ranks.c_str(),
                                  FAULT_RANK,
                                  scenario.c_str(),
                                  directory.c_str(),
                                  timeout.c_str(),
                                  nullptr};
    mpirun_ = fork();
    if (mpirun_ == 0) {
      execv(argv[0], const_cast<char* const*>(argv.data()));
      _exit(127);
    }
  }
  ~RankGroup() {
    for (int rank = 0; rank < size_; ++rank)
      if (const int pid = pid_of(rank); pid > 0 && !has_result(rank)) kill(pid, SIGKILL);
    if (mpirun_ > 0 && !exit_within(milliseconds(5000))) kill(mpirun_, SIGKILL);
    if (mpirun_ > 0) waitpid(mpirun_, nullptr, 0);
  }

  bool wait_until_running() {
    return testing::eventually(
        [this] {
          for (int rank = 0; rank < size_; ++rank) {
            if (pid_of(rank) <= 0) return false;
          }
          return true;
        },
        kGenerous);
  }
  void send(int rank, int signal) { ASSERT_EQ(kill(pid_of(rank), signal), 0); }
  void send_all(int signal) {
    for (int rank = 0; rank < size_; ++rank) send(rank, signal);
  }
  // "ok", or the error code and message; empty if there is none in time.
  std::string result_of(int rank, milliseconds timeout = kGenerous) {
    testing::eventually([&] { return has_result(rank); }, timeout);
    return read_text_file(path(rank, "result")).value_or("");
  }

 private:
  std::filesystem::path path(int rank, const char* suffix) {
    return directory_.path() / fmt::format("rank-{}.{}", rank, suffix);
  }
  bool has_result(int rank) { return std::filesystem::exists(path(rank, "result")); }
  int pid_of(int rank) {
    const auto text = read_text_file(path(rank, "pid"));
    return text ? std::stoi(*text) : 0;
  }
  bool exit_within(milliseconds timeout) {
    if (!testing::eventually([&] { return waitpid(mpirun_, nullptr, WNOHANG) == mpirun_; }, timeout))
      return false;
    mpirun_ = -1;
    return true;
  }

  testing::TemporaryDirectory directory_;
  int size_;
  pid_t mpirun_ = -1;
};

std::string code_text(ErrorCode code) { return fmt::format("{}\n", static_cast<int>(code)); }

class Faults : public ::testing::Test {
 protected:
  double seconds_since(std::chrono::steady_clock::time_point begin) const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
};

TEST_F(Faults, AKilledRankIsNamedByAllSurvivors) {
  RankGroup group("endless", 4);
  ASSERT_TRUE(group.wait_until_running());
  const auto begin = std::chrono::steady_clock::now();
  group.send(2, SIGKILL);
  for (const int survivor : {0, 1, 3}) {
    const std::string result = group.result_of(survivor);
    EXPECT_THAT(result, HasSubstr(code_text(ErrorCode::kPeerLost))) << survivor;
    EXPECT_THAT(result, HasSubstr("rank 2 on host ")) << survivor;
  }
  EXPECT_LT(seconds_since(begin), 20.0);
}

TEST_F(Faults, AStoppedRankIsNamedByAllSurvivors) {
  RankGroup group("endless", 3);
  ASSERT_TRUE(group.wait_until_running());
  const auto begin = std::chrono::steady_clock::now();
  group.send(1, SIGSTOP);
  for (const int survivor : {0, 2}) {
    const std::string result = group.result_of(survivor);
    EXPECT_THAT(result, HasSubstr(code_text(ErrorCode::kPeerLost))) << survivor;
    EXPECT_THAT(result, HasSubstr("rank 1 on host ")) << survivor;
    EXPECT_THAT(result, HasSubstr("gave no sign of life for 1.5 s")) << survivor;
  }
  EXPECT_GE(seconds_since(begin), 1.0);  // not before the timeout, counted from the last heartbeat
  EXPECT_LT(seconds_since(begin), 20.0);
}

TEST_F(Faults, AStoppedRankLearnsWhenItGoesOnThatItWasGivenUp) {
  RankGroup group("endless", 3);
  ASSERT_TRUE(group.wait_until_running());
  group.send(1, SIGSTOP);
  for (const int survivor : {0, 2}) EXPECT_THAT(group.result_of(survivor), HasSubstr("rank 1 on host "));
  group.send(1, SIGCONT);
  EXPECT_THAT(group.result_of(1), HasSubstr("rank 1 on host "));
}

TEST_F(Faults, APauseOfAllRanksIsNobodysDeath) {
  RankGroup group("endless", 3);
  ASSERT_TRUE(group.wait_until_running());
  group.send_all(SIGSTOP);
  EXPECT_EQ(group.result_of(0, 2 * kPeerTimeout), "");
  group.send_all(SIGCONT);
  EXPECT_EQ(group.result_of(0, kPeerTimeout), "");  // still running
  EXPECT_EQ(group.result_of(1, milliseconds(0)), "");
  EXPECT_EQ(group.result_of(2, milliseconds(0)), "");
}

TEST_F(Faults, ABusyRankIsNotLostNorIsOneThatLeftInGoodOrder) {
  RankGroup group("busy", 3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(group.result_of(rank), "ok");
}

TEST_F(Faults, SilentSingletonsAreImpossible) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.path().string();
  const pid_t child = fork();
  if (child == 0) {
    setenv("WORLD_SIZE", "4", 1);
    setenv("RANK", "0", 1);
    execl(FAULT_RANK, FAULT_RANK, "endless", path.c_str(), "1000", nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  const std::string result = read_text_file(directory.path() / "rank-0.result").value_or("");
  EXPECT_THAT(result, HasSubstr(code_text(ErrorCode::kMismatch)));
  EXPECT_THAT(result, HasSubstr("WORLD_SIZE=4, but MPI says the number of ranks is 1"));
}

}  // namespace
}  // namespace muster
