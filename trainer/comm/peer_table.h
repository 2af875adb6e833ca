// Decides from heartbeats which peer is lost: a pure state machine, told the time by its caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/liveness.h"

namespace muster::comm {

// "rank 3 on host n2"
std::string describe_rank(int rank, const std::string& host);

class PeerTable {
 public:
  using Clock = std::chrono::steady_clock;

  // hosts: one name for each rank, for messages. All peers count as heard of at `now`.
  PeerTable(int self, std::vector<std::string> hosts, std::chrono::milliseconds peer_timeout,
            Clock::time_point now);

  void heard(int rank, std::uint64_t progress, Clock::time_point now);
  void said_goodbye(int rank, Clock::time_point now);
  // The peer's host answered that nobody listens at its heartbeat address: its process has ended.
  void refused(int rank);

  // Call regularly, after noting everything that has arrived. The first peer that is lost, if any. If the
  // calls themselves paused for more than half the timeout, it was this process (or machine) that slept: then
  // all peers get a new start.
  std::optional<Fault> judge(Clock::time_point now);

  std::optional<Clock::time_point> left_since(int rank) const { return peer(rank).left_since; }
  std::uint64_t progress_of(int rank) const { return peer(rank).progress; }
  const std::string& host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(peers_.size()); }

 private:
  struct Peer {
    Clock::time_point last_heard;
    bool ever_heard = false;
    int refusals = 0;  // since last heard
    std::optional<Clock::time_point> left_since;
    std::uint64_t progress = 0;
  };

  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  std::optional<Fault> judge_peer(int rank, Clock::time_point now) const;

  int self_;
  std::vector<std::string> hosts_;
  std::chrono::milliseconds peer_timeout_;
  std::vector<Peer> peers_;
  Clock::time_point last_judged_;
};

}  // namespace muster::comm
