// Real processes meet: in a directory, and at a port.
#include "launcher/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/stream_socket.h"
#include "launcher/tcp_rendezvous.h"
#include "tests/support/forked_process.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ForkedProcess;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

Deadline generous() { return Deadline::after(seconds(60)); }

MasterChoice master_at(std::uint16_t port) {
  return [port](const std::vector<std::string>& nodes) -> Result<MasterAddress> {
    return MasterAddress{"master of " + std::to_string(nodes.size()), port};
  };
}

// One way to meet: in a directory, or at a port of rank 0's host.
using Meet = std::function<Result<RendezvousTable>(int rank, int world_size, const std::string& node,
                                                   const MasterChoice& choose_master, Deadline deadline)>;

Meet in_directory(const fs::path& directory) {
  return [=](int rank, int world_size, const std::string& node, const MasterChoice& choose,
             Deadline deadline) { return meet(directory, rank, world_size, node, choose, deadline); };
}

Meet at_port(const std::string& key) {
  return
      [=](int rank, int world_size, const std::string& node, const MasterChoice& choose, Deadline deadline) {
        return meet_at({key, {"localhost"}}, rank, world_size, node, choose, deadline);
      };
}

// What a rank makes of the meeting: 0 if it learned what it should.
int meet_and_check(const Meet& meet_there, int rank, int world_size, std::uint16_t port) {
  const auto table =
      meet_there(rank, world_size, "node " + std::to_string(rank / 2), master_at(port), generous());
  if (!table) return 1;
  if (table->master.port != port) return 2;
  if (table->master.address != "master of " + std::to_string(world_size)) return 3;
  for (int other = 0; other < world_size; ++other) {
    if (table->node_of_rank[static_cast<std::size_t>(other)] != "node " + std::to_string(other / 2)) return 4;
  }
  return 0;
}

void expect_meeting(const Meet& meet_there, int world_size, std::uint16_t port) {
  std::vector<ForkedProcess> ranks;
  for (int rank = world_size - 1; rank >= 0; --rank) {
    ranks.emplace_back([=] { return meet_and_check(meet_there, rank, world_size, port); });
  }
  for (ForkedProcess& rank : ranks) {
    const int status = rank.wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "exit code " << WEXITSTATUS(status);
  }
}

TEST(Rendezvous, AllRanksLearnTheSameAndTheDirectoryGoes) {
  TemporaryDirectory parent;
  for (const int world_size : {2, 3, 5, 8}) {
    expect_meeting(in_directory(parent.path() / "a" / "meeting"), world_size, 4711);
    EXPECT_FALSE(fs::exists(parent.path() / "a" / "meeting"));
  }
}

TEST(Rendezvous, ASingleRankNeedsNoDirectory) {
  const auto table = meet("/nonexistent/x", 0, 1, "here", master_at(5), generous());
  ASSERT_TRUE(table);
  EXPECT_EQ(table->master.port, 5);
  EXPECT_THAT(table->node_of_rank, ::testing::ElementsAre("here"));
}

// An earlier start of the same name died at any point: begun, half answered, or with its table published.
TEST(Rendezvous, WhatAnEarlierStartLeftIsNeverBelieved) {
  TemporaryDirectory directory;
  const auto leave = [&](const std::string& name, const nlohmann::json& content) {
    std::ofstream(directory.path() / name) << content;
  };
  leave("begin-00", nlohmann::json::object());
  leave("begin-11", nlohmann::json::object());
  leave("rank-1-00", {{"nonce", "old"}, {"node", "elsewhere"}});
  leave("rank-2-00", {{"nonce", "old"}, {"node", "elsewhere"}});
  leave("table-00",
        {{"nonces", {"old", "old"}}, {"nodes", {"x", "y", "z"}}, {"address", "stale"}, {"port", 1}});
  leave("table-22", "not a table");
  leave("new-33", nullptr);
  expect_meeting(in_directory(directory.path()), 3, 4712);
}

void expect_meetings_one_after_the_other(const Meet& meet_there) {
  constexpr int kWorldSize = 4;
  constexpr int kMeetings = 20;
  std::vector<ForkedProcess> ranks;
  for (int rank = 0; rank < kWorldSize; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int meeting = 1; meeting <= kMeetings; ++meeting) {
        const int result = meet_and_check(meet_there, rank, kWorldSize, static_cast<std::uint16_t>(meeting));
        if (result != 0) return result;
      }
      return 0;
    });
  }
  for (ForkedProcess& rank : ranks) {
    const int status = rank.wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "exit code " << WEXITSTATUS(status);
  }
}

TEST(Rendezvous, OneMeetingRightAfterTheOtherInTheSamePlace) {
  TemporaryDirectory parent;
  expect_meetings_one_after_the_other(in_directory(parent.path() / "m"));
}

// A key that no test running beside this one has.
std::string own_key(const std::string& name) { return name + std::to_string(::getpid()); }

TEST(TcpRendezvous, AllRanksLearnTheSame) {
  for (const int world_size : {2, 3, 5, 8}) expect_meeting(at_port(own_key("all")), world_size, 4711);
}

TEST(TcpRendezvous, OneMeetingRightAfterTheOtherAtTheSamePorts) {
  expect_meetings_one_after_the_other(at_port(own_key("again")));
}

// Somebody else has the first port and says nothing, and another start's rank 0 has the second.
TEST(TcpRendezvous, StrangersAtOurPortsArePassedBy) {
  const std::string key = own_key("strangers");
  const std::vector<std::uint16_t> ports = meeting_ports(key);
  std::vector<UniqueFd> strangers;
  for (const std::size_t i : {0U, 1U}) {
    strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(ports[i]);
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    ASSERT_EQ(::bind(strangers.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(strangers.back().get(), 8), 0);
  }
  ForkedProcess other_start([&] {
    for (;;) {
      const UniqueFd fd(::accept(strangers[1].get(), nullptr, nullptr));
      static_cast<void>(send_all(fd.get(), "{\"key\": \"another start\"}\n", "a rank", generous()));
    }
    return 0;
  });
  expect_meeting(at_port(key), 3, 4713);
}

TEST(TcpRendezvous, WhoWaitsInVainNamesTheMissing) {
  const std::string key = own_key("vain");
  const Deadline deadline = Deadline::after(milliseconds(50));
  const auto lead = at_port(key)(0, 3, "n", master_at(1), deadline);
  ASSERT_FALSE(lead);
  EXPECT_EQ(lead.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(lead.error().message, HasSubstr("1, 2 of 3 ranks"));
  const auto follow = at_port(key)(1, 3, "n", master_at(1), deadline);
  ASSERT_FALSE(follow);
  EXPECT_EQ(follow.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(follow.error().message, HasSubstr("rank 0 did not show up at localhost"));
}

TEST(TcpRendezvous, RankZeroElsewhereThanOthersLookForItIsToldAtOnce) {
  const auto lead = meet_at({own_key("elsewhere"), {"192.0.2.1"}}, 0, 2, "n", master_at(1), generous());
  ASSERT_FALSE(lead);
  EXPECT_EQ(lead.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(lead.error().message, HasSubstr("rank 0 does not run on 192.0.2.1"));
}

TEST(TcpRendezvous, MpirunTellsWhereItIs) {
  using ::testing::ElementsAre;
  EXPECT_THAT(mpirun_hosts({}), ::testing::IsEmpty());
  EXPECT_THAT(mpirun_hosts({{"OMPI_MCA_orte_hnp_uri", "1234.0;tcp://10.0.0.1,192.168.7.1:41234"}}),
              ElementsAre("10.0.0.1", "192.168.7.1"));
  EXPECT_THAT(mpirun_hosts({{"OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1:4;tcp6://[fd00::1]:5"}}),
              ElementsAre("10.0.0.1", "fd00::1"));
}

TEST(Rendezvous, WhoWaitsInVainNamesTheMissing) {
  TemporaryDirectory directory;
  const Deadline deadline = Deadline::after(milliseconds(50));
  const auto lead = meet(directory.path(), 0, 3, "n", master_at(1), deadline);
  ASSERT_FALSE(lead);
  EXPECT_EQ(lead.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(lead.error().message, HasSubstr("1, 2 of 3 ranks"));
  TemporaryDirectory empty;
  const auto follow = meet(empty.path(), 1, 3, "n", master_at(1), deadline);
  ASSERT_FALSE(follow);
  EXPECT_EQ(follow.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(follow.error().message, HasSubstr("rank 0 did not show up"));
}

TEST(Rendezvous, TheDirectoryIsTheRunsOwnOrTheUsersOrPrivate) {
  TemporaryDirectory home;
  RankPlacement placement;
  placement.job_key = "job";
  placement.single_node = false;
  EXPECT_THAT(rendezvous_directory({}, "", placement).error().message, HasSubstr("--rendezvous-dir"));
  EXPECT_EQ(rendezvous_directory({}, "/shared", placement).value(), "/shared/job");
  const Environment run{{"MUSTER_RUN_DIR", "/runs/r"}, {"MUSTER_ATTEMPT", "3"}};
  EXPECT_EQ(rendezvous_directory(run, "", placement).value(), "/runs/r/attempts/3/rendezvous/job");
  placement.single_node = true;
  const Environment runtime{{"XDG_RUNTIME_DIR", home.path().string()}};
  const fs::path own = rendezvous_directory(runtime, "", placement).value();
  EXPECT_EQ(own, home.path() / "muster" / "rendezvous" / "job");
  EXPECT_EQ(fs::status(own.parent_path()).permissions(), fs::perms::owner_all);
}

TEST(Rendezvous, APrivateDirectoryOpenToOthersIsRefused) {
  TemporaryDirectory parent;
  const fs::path open = parent.path() / "open";
  ASSERT_EQ(::mkdir(open.c_str(), 0700), 0);
  EXPECT_TRUE(make_private_directory(open));
  ASSERT_EQ(::chmod(open.c_str(), 0750), 0);
  EXPECT_EQ(make_private_directory(open).error().code, ErrorCode::kInvalidArgument);
  fs::create_directory_symlink(parent.path(), parent.path() / "link");
  EXPECT_FALSE(make_private_directory(parent.path() / "link"));
  std::ofstream(parent.path() / "file") << "";
  EXPECT_FALSE(make_private_directory(parent.path() / "file"));
}

}  // namespace
}  // namespace muster
