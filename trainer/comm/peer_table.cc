#include "trainer/comm/peer_table.h"

#include <algorithm>
#include <utility>

namespace muster::comm {
namespace {

// One refusal may be a stray; a live process never refuses several heartbeats in a row.
constexpr int kRefusalsOfTheDead = 3;

}  // namespace

std::string describe_rank(int rank, const std::string& host) {
  return fmt::format("rank {} on host {}", rank, host);
}

PeerTable::PeerTable(int self, std::vector<std::string> hosts, std::chrono::milliseconds peer_timeout,
                     Clock::time_point now)
    : self_(self), hosts_(std::move(hosts)), peer_timeout_(peer_timeout), last_judged_(now) {
  peers_.resize(hosts_.size());
  for (Peer& peer : peers_) peer.last_heard = now;
}

void PeerTable::heard(int rank, std::uint64_t progress, Clock::time_point now) {
  Peer& sender = peer(rank);
  sender.last_heard = now;
  sender.ever_heard = true;
  sender.refusals = 0;
  sender.progress = std::max(sender.progress, progress);
}

void PeerTable::said_goodbye(int rank, Clock::time_point now) {
  if (!peer(rank).left_since) peer(rank).left_since = now;
}

void PeerTable::refused(int rank) { ++peer(rank).refusals; }

std::optional<Fault> PeerTable::judge(Clock::time_point now) {
  const bool slept = now - last_judged_ > peer_timeout_ / 2;
  last_judged_ = now;
  if (slept) {
    for (Peer& peer : peers_) {
      peer.last_heard = now;
      peer.refusals = 0;
    }
    return std::nullopt;
  }
  for (int rank = 0; rank < size(); ++rank)
    if (auto fault = judge_peer(rank, now)) return fault;
  return std::nullopt;
}

std::optional<Fault> PeerTable::judge_peer(int rank, Clock::time_point now) const {
  const Peer& candidate = peer(rank);
  if (rank == self_ || candidate.left_since) return std::nullopt;
  const std::string name = describe_rank(rank, host(rank));
  if (candidate.refusals >= kRefusalsOfTheDead)
    return Fault{
        {ErrorCode::kPeerLost, fmt::format("{} is gone: its process has ended without saying goodbye", name)},
        rank};
  if (now - candidate.last_heard < peer_timeout_) return std::nullopt;
  const double seconds = std::chrono::duration<double>(peer_timeout_).count();
  std::string text = fmt::format("{} gave no sign of life for {:.1f} s", name, seconds);
  if (!candidate.ever_heard)
    text +=
        " since the start: check that UDP passes between the hosts (network interface: "
        "MUSTER_NETWORK_INTERFACE)";
  return Fault{{ErrorCode::kPeerLost, text}, rank};
}

}  // namespace muster::comm
