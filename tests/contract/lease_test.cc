#include "launcher/lease.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/file_ops.h"
#include "launcher/lease_holder.h"
#include "tests/support/forked_process.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using testing::ForkedProcess;
using testing::Pipe;
using testing::TemporaryDirectory;

void set_age(const fs::path& path, int age_s) {
  timespec stamps[2]{};
  ::clock_gettime(CLOCK_REALTIME, &stamps[0]);
  stamps[0].tv_sec -= age_s;
  stamps[1] = stamps[0];
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), stamps, 0), 0);
}

// A lease file as some other process would have left it.
void plant(const fs::path& run, int number, const ProcessIdentity& holder, int age_s = 0) {
  fs::create_directories(run / "leases");
  const fs::path path = run / "leases" / (std::to_string(number) + ".json");
  std::ofstream(path) << process_identity_to_json(holder).dump();
  set_age(path, age_s);
}

ProcessIdentity self() { return this_process_identity().value(); }

ProcessIdentity on_another_machine() {
  ProcessIdentity other = self();
  other.host = "elsewhere";
  other.boot_id = "11111111-2222-3333-4444-555555555555";
  return other;
}

ErrorCode code_of_acquire(const fs::path& run) {
  const auto lease = Lease::acquire(run);
  return lease ? ErrorCode::kInternal : lease.error().code;
}

TEST(Lease, OneHolderAtATimeAndTheRefusalNamesIt) {
  TemporaryDirectory run;
  auto first = Lease::acquire(run.path());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->renew());
  const auto second = Lease::acquire(run.path());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(second.error().message, ::testing::HasSubstr("pid " + std::to_string(::getpid())));
  EXPECT_THAT(second.error().message, ::testing::HasSubstr(host_name()));
  EXPECT_EQ(live_lease_holder(run.path()).value().pid, ::getpid());

  first->release();
  first->release();
  EXPECT_FALSE(live_lease_holder(run.path()));
  EXPECT_FALSE(first->renew());
  auto third = Lease::acquire(run.path());
  ASSERT_TRUE(third);
  Lease moved = std::move(*third);
  EXPECT_TRUE(moved.renew());
}

TEST(Lease, TheDestructorReleases) {
  TemporaryDirectory run;
  { ASSERT_TRUE(Lease::acquire(run.path())); }
  EXPECT_TRUE(Lease::acquire(run.path()));
}

TEST(Lease, NeedsARunDirectory) {
  TemporaryDirectory run;
  EXPECT_EQ(code_of_acquire(run.path() / "none"), ErrorCode::kNotFound);
  EXPECT_FALSE(live_lease_holder(run.path() / "none"));
  EXPECT_FALSE(live_lease_holder(run.path()));
}

TEST(Lease, AKilledOwnerLosesItAtOnceEvenAsAZombie) {
  TemporaryDirectory run;
  Pipe ready;
  ForkedProcess owner([&] {
    const auto lease = Lease::acquire(run.path());
    ready.put(lease ? 'y' : 'n');
    for (;;) ::pause();
    return 0;
  });
  ASSERT_EQ(ready.take(), 'y');
  EXPECT_EQ(code_of_acquire(run.path()), ErrorCode::kAlreadyExists);
  owner.send(SIGSTOP);  // stopped is not dead
  EXPECT_EQ(code_of_acquire(run.path()), ErrorCode::kAlreadyExists);
  owner.send(SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(owner.pid()), &info, WEXITED | WNOWAIT), 0);  // a zombie now
  EXPECT_FALSE(live_lease_holder(run.path()));
  EXPECT_TRUE(Lease::acquire(run.path()));
}

TEST(Lease, AReusedPidIsNotTheOwner) {
  TemporaryDirectory run;
  ProcessIdentity earlier = self();
  earlier.start_ticks -= 1;
  plant(run.path(), 1, earlier);
  EXPECT_TRUE(Lease::acquire(run.path()));
}

TEST(Lease, AnotherMachinesOwnerIsDeadOnlyWhenItStoppedRenewing) {
  TemporaryDirectory run;
  plant(run.path(), 3, on_another_machine(), static_cast<int>(kLeaseExpiry.count()) - 20);
  const auto refused = Lease::acquire(run.path());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("elsewhere"));
  plant(run.path(), 3, on_another_machine(), static_cast<int>(kLeaseExpiry.count()) + 20);
  EXPECT_FALSE(live_lease_holder(run.path()));
  EXPECT_TRUE(Lease::acquire(run.path()));
}

TEST(Lease, AnOwnerInAnotherPidNamespaceIsJudgedByItsRenewals) {
  TemporaryDirectory run;
  ProcessIdentity contained = self();
  contained.pid_namespace += 1;
  contained.pid = 1 << 30;  // no such pid here
  plant(run.path(), 1, contained);
  EXPECT_EQ(code_of_acquire(run.path()), ErrorCode::kAlreadyExists);
}

TEST(Lease, ADamagedLeaseIsRespectedUntilItExpires) {
  TemporaryDirectory run;
  fs::create_directories(run.path() / "leases");
  const fs::path path = run.path() / "leases" / "1.json";
  std::ofstream(path) << "{";
  EXPECT_EQ(code_of_acquire(run.path()), ErrorCode::kAlreadyExists);
  set_age(path, 300);
  EXPECT_TRUE(Lease::acquire(run.path()));
}

TEST(Lease, WhoWasTakenOverLearnsItAndDisturbsNothing) {
  TemporaryDirectory run;
  auto first = Lease::acquire(run.path());
  ASSERT_TRUE(first);
  plant(run.path(), 1, on_another_machine(),
        300);  // as it looks from a machine the first one lost touch with
  auto second = Lease::acquire(run.path());
  ASSERT_TRUE(second) << second.error().message;
  const Status renewal = first->renew();
  ASSERT_FALSE(renewal);
  EXPECT_EQ(renewal.error().code, ErrorCode::kAborted);
  first->release();
  EXPECT_TRUE(second->renew());
  EXPECT_EQ(code_of_acquire(run.path()), ErrorCode::kAlreadyExists);
}

TEST(Lease, TheOwnerOfARemovedDirectoryIsTold) {
  TemporaryDirectory parent;
  const fs::path run = parent.path() / "run";
  fs::create_directory(run);
  auto lease = Lease::acquire(run);
  ASSERT_TRUE(lease);
  fs::rename(run, parent.path() / "aside");
  const Status renewal = lease->renew();
  ASSERT_FALSE(renewal);
  EXPECT_EQ(renewal.error().code, ErrorCode::kAborted);
}

TEST(Lease, LeavesOneFileBehindHoweverOftenItChangesHands) {
  TemporaryDirectory run;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Lease::acquire(run.path()));
  const fs::directory_iterator files(run.path() / "leases");
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

// Takers race from every state a lease can be in; each round has exactly one winner.
TEST(LeaseRace, OfManyTakersOneWins) {
  constexpr int kRounds = 120;
  constexpr int kTakers = 3;
  TemporaryDirectory parent;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    const fs::path run = parent.path() / std::to_string(round);
    fs::create_directory(run);
    ProcessIdentity dead = self();
    dead.start_ticks -= 1;
    if (round % 4 == 1) plant(run, 7, dead);
    if (round % 4 == 2) plant(run, 7, on_another_machine(), 300);
    if (round % 4 == 3) {
      ASSERT_TRUE(Lease::acquire(run));
    }
    Pipe start;
    Pipe results;
    Pipe finish;
    std::vector<ForkedProcess> takers;
    for (int taker = 0; taker < kTakers; ++taker) {
      takers.emplace_back([&] {
        start.close_write();
        finish.close_write();
        start.take();  // returns for all when the parent closes its end
        const auto lease = Lease::acquire(run);
        const bool lost = !lease && lease.error().code == ErrorCode::kAlreadyExists;
        results.put(lease ? 'W' : lost ? 'L' : 'E');
        finish.take();
        return 0;
      });
    }
    start.close_write();
    std::string outcome;
    for (int taker = 0; taker < kTakers; ++taker) outcome += results.take();
    EXPECT_EQ(std::count(outcome.begin(), outcome.end(), 'W'), 1) << outcome;
    EXPECT_EQ(std::count(outcome.begin(), outcome.end(), 'L'), kTakers - 1) << outcome;
    finish.close_write();
  }
}

// Owners that come, release or die, and go: never two at once. flock(2) is the witness.
TEST(LeaseRace, NoTwoOwnersAtOnceWhileItChangesHands) {
  TemporaryDirectory run;
  constexpr int kProcesses = 4;
  constexpr int kTurns = 25;
  const fs::path witness = run.path() / "witness";
  std::ofstream(witness) << "";
  const auto take_turns = [&](int process) {
    for (int turns = 0; turns < kTurns;) {
      const auto lease = Lease::acquire(run.path());
      if (!lease && lease.error().code == ErrorCode::kAlreadyExists) continue;
      if (!lease) return 2;
      const int fd = ::open(witness.c_str(), O_RDWR | O_CLOEXEC);
      if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return 3;
      ++turns;
      if (process == 0 && turns == kTurns / 2) ::raise(SIGKILL);
      ::close(fd);
    }
    return 0;
  };
  std::vector<ForkedProcess> processes;
  for (int process = 0; process < kProcesses; ++process) {
    processes.emplace_back([&, process] { return take_turns(process); });
  }
  for (int process = 0; process < kProcesses; ++process) {
    const int status = processes[static_cast<std::size_t>(process)].wait();
    if (process == 0) {
      EXPECT_TRUE(WIFSIGNALED(status));
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "exit code " << WEXITSTATUS(status);
    }
  }
}

TEST(EndLeaseHolder, KillsAHolderThatHearsNoSignal) {
  const TemporaryDirectory directory;
  const RunDirectory run{"deaf-holder", directory.path()};
  Pipe held;
  ForkedProcess holder([&] {
    std::signal(SIGTERM, SIG_IGN);
    const auto lease = Lease::acquire(run.path);
    held.put(lease ? 'y' : 'n');
    for (;;) ::pause();
    return 0;
  });
  ASSERT_EQ(held.take(), 'y');
  EndHolderPatience patience;
  patience.stop = patience.kill = std::chrono::milliseconds(50);
  const Status ended = end_lease_holder(run, patience);
  EXPECT_TRUE(ended) << ended.error().message;
  const int status = holder.wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(EndLeaseHolder, HasNothingToDoForARunThatNobodyHolds) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(end_lease_holder({"nobody", directory.path()}));
}

}  // namespace
}  // namespace muster
