// Who is lost and why: the decision by the clock, the datagram, and heartbeats over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "common/clock.h"
#include "trainer/comm/heartbeat.h"
#include "trainer/comm/peer_table.h"
#include "trainer/comm/udp_liveness.h"

namespace muster::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Three ranks, this one is 0, a timeout of 10 s, and a clock in the test's hand.
class Peers : public ::testing::Test {
 protected:
  PeerTable::Clock::time_point at(double seconds) const {
    return begin_ +
           std::chrono::duration_cast<PeerTable::Clock::duration>(std::chrono::duration<double>(seconds));
  }
  // Judges each second, as a running process would; returns the last verdict.
  std::optional<Fault> pass(double from, double to, const std::vector<int>& alive) {
    std::optional<Fault> verdict;
    for (double now = from; now <= to && !verdict; now += 1) {
      for (const int rank : alive) table_.heard(rank, 0, at(now));
      verdict = table_.judge(at(now));
    }
    return verdict;
  }

  PeerTable::Clock::time_point begin_ = PeerTable::Clock::now();
  PeerTable table_{0, {"n0", "n1", "n2"}, milliseconds(10'000), begin_};
};

TEST_F(Peers, SilenceForTheTimeoutIsALoss) {
  ASSERT_FALSE(pass(0, 5, {1, 2}));
  ASSERT_FALSE(pass(6, 14, {1}));
  const auto verdict = pass(15, 15, {1});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->error.code, ErrorCode::kPeerLost);
  EXPECT_EQ(verdict->error.message, "rank 2 on host n2 gave no sign of life for 10.0 s");
  EXPECT_EQ(verdict->blamed_rank, 2);
}

TEST_F(Peers, APeerNeverHeardOfPointsAtTheNetwork) {
  const auto verdict = pass(0, 20, {1});
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->error.message, HasSubstr("rank 2 on host n2"));
  EXPECT_THAT(verdict->error.message, HasSubstr("MUSTER_NETWORK_INTERFACE"));
}

TEST_F(Peers, AGoodbyeIsNoLoss) {
  table_.said_goodbye(2, at(1));
  EXPECT_FALSE(pass(0, 100, {1}));
  EXPECT_EQ(table_.left_since(2), at(1));
  EXPECT_FALSE(table_.left_since(1));
}

TEST_F(Peers, OwnSleepIsNotTheOthersDeath) {
  ASSERT_FALSE(pass(0, 5, {1, 2}));
  EXPECT_FALSE(table_.judge(at(300)));  // five minutes in which this process was stopped
  EXPECT_FALSE(pass(301, 309, {}));     // the others get their time again
  EXPECT_TRUE(pass(310, 311, {}));
}

TEST_F(Peers, RepeatedRefusalsMeanThatTheProcessHasEnded) {
  ASSERT_FALSE(pass(0, 5, {1, 2}));
  table_.refused(1);
  table_.refused(1);
  ASSERT_FALSE(pass(6, 6, {1, 2}));  // heard again: they were strays
  for (int i = 0; i < 3; ++i) table_.refused(1);
  const auto verdict = table_.judge(at(7));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->error.message,
            "rank 1 on host n1 is gone: its process has ended without saying goodbye");
}

TEST(Heartbeat, IsReadAsWritten) {
  Heartbeat sent;
  sent.nonce = 0x1122334455667788;
  sent.generation = -3;
  sent.rank = 17;
  sent.leaving = true;
  sent.progress = 1ull << 40;
  sent.fault = Fault{{ErrorCode::kMismatch, "ranks 1 and 2 disagree"}, 2};
  std::array<std::byte, Heartbeat::kBytesMax> bytes;
  const std::size_t length = encode_heartbeat(sent, bytes);
  const auto got = decode_heartbeat(std::span(bytes).first(length));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->nonce, sent.nonce);
  EXPECT_EQ(got->generation, sent.generation);
  EXPECT_EQ(got->rank, sent.rank);
  EXPECT_TRUE(got->leaving);
  EXPECT_EQ(got->progress, sent.progress);
  ASSERT_TRUE(got->fault);
  EXPECT_EQ(got->fault->error.code, ErrorCode::kMismatch);
  EXPECT_EQ(got->fault->error.message, "ranks 1 and 2 disagree");
  EXPECT_EQ(got->fault->blamed_rank, 2);
}

TEST(Heartbeat, LongTextsAreCutBetweenCharacters) {
  Heartbeat sent;
  std::string text = "x";
  for (int i = 0; i < 600; ++i) text += "é";
  sent.fault = Fault{{ErrorCode::kAborted, text}, std::nullopt};
  std::array<std::byte, Heartbeat::kBytesMax> bytes;
  const auto got = decode_heartbeat(std::span(bytes).first(encode_heartbeat(sent, bytes)));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->fault->error.message, text.substr(0, 511));
  EXPECT_FALSE(got->fault->blamed_rank);
}

TEST(Heartbeat, EverythingElseIsIgnored) {
  Heartbeat sent;
  std::array<std::byte, Heartbeat::kBytesMax> bytes;
  const std::size_t length = encode_heartbeat(sent, bytes);
  for (std::size_t cut = 0; cut < length; ++cut) EXPECT_FALSE(decode_heartbeat(std::span(bytes).first(cut)));
  EXPECT_FALSE(decode_heartbeat(std::span(bytes).first(length + 1)));
  for (std::size_t i = 0; i < 6; ++i) {  // magic and protocol
    auto damaged = bytes;
    damaged[i] ^= std::byte{1};
    EXPECT_FALSE(decode_heartbeat(std::span(damaged).first(length)));
  }
}

// Some ranks in this process, each with its own socket and heartbeat thread.
struct Ranks {
  Ranks(int size, milliseconds peer_timeout) {
    std::vector<UdpSocket> sockets;
    UdpGroup group;
    for (int rank = 0; rank < size; ++rank) {
      sockets.push_back(UdpSocket::bind(loopback_address()).value());
      group.addresses.push_back(sockets.back().address());
      group.hosts.push_back(fmt::format("n{}", rank));
    }
    group.nonce = 99;
    group.peer_timeout = peer_timeout;
    for (int rank = 0; rank < size; ++rank) {
      group.rank = rank;
      members.push_back(make_udp_liveness(std::move(sockets[static_cast<std::size_t>(rank)]), group).value());
    }
  }
  std::optional<Fault> fault_within(std::size_t rank, milliseconds timeout) {
    const Deadline deadline = Deadline::after(timeout);
    while (!members[rank]->fault() && !deadline.expired()) std::this_thread::yield();
    return members[rank]->fault();
  }
  std::vector<std::unique_ptr<Liveness>> members;
};

constexpr milliseconds kGenerous{30'000};

TEST(UdpLiveness, AProcessThatVanishesIsNamedByAll) {
  Ranks ranks(3, milliseconds(5000));
  ranks.members[1].reset();  // no goodbye: what kill -9 looks like
  for (const std::size_t survivor : {0u, 2u}) {
    const auto fault = ranks.fault_within(survivor, kGenerous);
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->error.code, ErrorCode::kPeerLost);
    EXPECT_THAT(fault->error.message, HasSubstr("rank 1 on host n1"));
    EXPECT_EQ(fault->blamed_rank, 1);
  }
}

TEST(UdpLiveness, AFaultReachesAllAndTheFirstOneStays) {
  Ranks ranks(4, milliseconds(5000));
  ranks.members[2]->report({{ErrorCode::kAborted, "rank 2 gave up: no more disk"}, 2});
  ranks.members[2]->report({{ErrorCode::kInternal, "later"}, 0});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto fault = ranks.fault_within(rank, kGenerous);
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->error.code, ErrorCode::kAborted);
    EXPECT_EQ(fault->error.message, "rank 2 gave up: no more disk");
    EXPECT_EQ(fault->blamed_rank, 2);
  }
}

TEST(UdpLiveness, AGoodbyeIsHeardAndIsNoFault) {
  Ranks ranks(2, milliseconds(400));
  ranks.members[1]->leave();
  ranks.members[1].reset();
  const Deadline deadline = Deadline::after(kGenerous);
  while (!ranks.members[0]->left_since(1) && !deadline.expired()) std::this_thread::yield();
  ASSERT_TRUE(ranks.members[0]->left_since(1));
  EXPECT_FALSE(ranks.fault_within(0, milliseconds(800)));  // two timeouts later
}

TEST(UdpLiveness, HeartbeatsCarryProgress) {
  Ranks ranks(2, milliseconds(400));
  ranks.members[1]->set_progress(42);
  const Deadline deadline = Deadline::after(kGenerous);
  while (ranks.members[0]->progress_of(1) != 42 && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(ranks.members[0]->progress_of(1), 42u);
}

TEST(UdpLiveness, StrangersDatagramsAreIgnored) {
  const UdpSocket stranger = UdpSocket::bind(loopback_address()).value();
  auto victim = UdpSocket::bind(loopback_address()).value();
  const UdpAddress address = victim.address();
  UdpGroup group{0, {address, stranger.address()}, {"n0", "n1"}, 7, 1, milliseconds(60'000)};
  const auto liveness = make_udp_liveness(std::move(victim), group).value();
  Heartbeat forged;
  forged.rank = 1;
  forged.generation = 1;
  forged.nonce = 8;  // of another group
  forged.fault = Fault{{ErrorCode::kAborted, "forged"}, 1};
  std::array<std::byte, Heartbeat::kBytesMax> bytes;
  std::size_t length = encode_heartbeat(forged, bytes);
  stranger.send(std::span(bytes).first(length), address);
  forged.nonce = 7;
  forged.fault.reset();
  forged.progress = 5;
  length = encode_heartbeat(forged, bytes);
  stranger.send(std::span(bytes).first(length), address);
  const Deadline deadline = Deadline::after(kGenerous);
  while (liveness->progress_of(1) != 5 && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(liveness->progress_of(1), 5u);  // so the forged one has arrived before
  EXPECT_FALSE(liveness->fault());
}

TEST(UdpLiveness, TooShortATimeoutIsRefused) {
  auto socket = UdpSocket::bind(loopback_address()).value();
  UdpGroup group{0, {socket.address()}, {"n0"}, 7, 1, milliseconds(99)};
  EXPECT_EQ(make_udp_liveness(std::move(socket), group).error().code, ErrorCode::kInvalidArgument);
}

TEST(NetworkInterface, IsChosenByNameOrRefusedWithTheListOfThoseThereAre) {
  const auto loopback = interface_address("lo");
  ASSERT_TRUE(loopback) << loopback.error().message;
  EXPECT_EQ(to_string(*loopback), "127.0.0.1:0");
  const auto missing = interface_address("no-such-interface");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(missing.error().message, HasSubstr("'no-such-interface'"));
  EXPECT_THAT(missing.error().message, HasSubstr("lo (127.0.0.1:0)"));
}

TEST(NetworkInterface, ALoopbackRouteSaysNothing) {
  EXPECT_EQ(address_towards("127.0.0.1").error().message, "no route to 127.0.0.1 but over loopback");
  EXPECT_EQ(address_towards("no.such.host.invalid").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace muster::comm
