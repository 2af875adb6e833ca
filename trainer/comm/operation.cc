#include "trainer/comm/operation.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "trainer/comm/elementwise.h"

namespace muster::comm {
namespace {

constexpr int kMessagesInFlight = 8;  // for each peer and direction

bool is_message(const Action& action) {
  return action.kind == Action::Kind::kSend || action.kind == Action::Kind::kReceive;
}

std::size_t at(int action) { return static_cast<std::size_t>(action); }

}  // namespace

Operation::Operation(Transport& transport, Schedule schedule, const MessageHeader& header, Buffers buffers,
                     Deadline deadline)
    : transport_(transport),
      schedule_(std::move(schedule)),
      header_(header),
      buffers_(std::move(buffers)),
      deadline_(deadline),
      remaining_(schedule_.actions.size()) {
  build_channels();
  build_dependencies();
  for (std::size_t i = 0; i < schedule_.actions.size(); ++i)
    if (!is_message(schedule_.actions[i]) && waiting_for_[i] == 0) ready_sums_.push_back(static_cast<int>(i));
}

void Operation::build_channels() {
  std::map<std::pair<int, Action::Kind>, std::vector<int>> messages;
  for (std::size_t i = 0; i < schedule_.actions.size(); ++i) {
    const Action& action = schedule_.actions[i];
    if (is_message(action)) messages[{action.peer, action.kind}].push_back(static_cast<int>(i));
  }
  for (auto& [key, actions] : messages) channels_.push_back({std::move(actions)});
}

void Operation::build_dependencies() {
  waiting_for_.assign(schedule_.actions.size(), 0);
  successors_begin_.assign(schedule_.actions.size() + 1, 0);
  for (const Dependency& edge : schedule_.dependencies) {
    ++waiting_for_[at(edge.after)];
    ++successors_begin_[at(edge.before) + 1];
  }
  for (std::size_t i = 1; i < successors_begin_.size(); ++i) successors_begin_[i] += successors_begin_[i - 1];
  std::vector<int> filled(successors_begin_.begin(), successors_begin_.end() - 1);
  successors_.resize(schedule_.dependencies.size());
  for (const Dependency& edge : schedule_.dependencies)
    successors_[at(filled[at(edge.before)]++)] = edge.after;
}

Result<bool> Operation::progress() {
  bool moved = !ready_sums_.empty();
  complete(-1);
  for (std::size_t i = 0; i < in_flight_.size();) {
    const int action = in_flight_[i].action;
    const Result<bool> finished = in_flight_[i].transfer->test();
    if (!finished) {
      failed_peer_ = schedule_.actions[at(action)].peer;
      return tl::unexpected<Error>(finished.error());
    }
    if (!*finished) {
      ++i;
      continue;
    }
    --in_flight_[i].channel->in_flight;
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(i));
    complete(action);
    moved = true;
  }
  MUSTER_TRY(post_ready());
  return moved;
}

// Counts an action as done (none: -1), and does the sums that only waited for that.
void Operation::complete(int action) {
  const auto release_successors = [this](int finished) {
    --remaining_;
    for (int i = successors_begin_[at(finished)]; i < successors_begin_[at(finished) + 1]; ++i) {
      const int successor = successors_[at(i)];
      if (--waiting_for_[at(successor)] == 0 && !is_message(schedule_.actions[at(successor)]))
        ready_sums_.push_back(successor);
    }
  };
  if (action >= 0) release_successors(action);
  while (!ready_sums_.empty()) {
    const int sum = ready_sums_.back();
    ready_sums_.pop_back();
    compute(schedule_.actions[at(sum)]);
    release_successors(sum);
  }
}

Status Operation::post_ready() {
  for (Channel& channel : channels_) {
    while (channel.next < channel.actions.size() && channel.in_flight < kMessagesInFlight) {
      const int action = channel.actions[channel.next];
      if (waiting_for_[at(action)] > 0) break;
      MUSTER_TRY(post(channel, action));
      ++channel.next;
    }
  }
  return {};
}

Status Operation::post(Channel& channel, int number) {
  const Action& action = schedule_.actions[at(number)];
  MessageHeader header = header_;
  header.chunk = action.chunk;
  header.payload_bytes = action.count * size_of(header.dtype);
  const std::size_t bytes = header.payload_bytes;
  auto transfer =
      action.kind == Action::Kind::kSend
          ? transport_.post_send(action.peer, header, {bytes > 0 ? readable(action.left) : nullptr, bytes})
          : transport_.post_receive(action.peer, header,
                                    {bytes > 0 ? writable(action.target) : nullptr, bytes});
  if (!transfer) {
    failed_peer_ = action.peer;
    return tl::unexpected<Error>(transfer.error());
  }
  ++channel.in_flight;
  in_flight_.push_back({number, &channel, *std::move(transfer)});
  return {};
}

void Operation::compute(const Action& action) {
  std::byte* target = writable(action.target);
  const std::byte* left = readable(action.left);
  if (action.kind == Action::Kind::kAdd) {
    add(target, left, readable(action.right), action.count, header_.dtype);
  } else if (target != left) {
    std::memcpy(target, left, action.count * size_of(header_.dtype));
  }
}

std::byte* Operation::writable(const Place& place) const {
  std::byte* base = place.buffer == Place::kOutput ? buffers_.output : buffers_.scratch.data();
  return base + place.offset_bytes;
}

const std::byte* Operation::readable(const Place& place) const {
  if (place.buffer < Place::kFirstInput) return writable(place);
  return buffers_.inputs[at(place.buffer - Place::kFirstInput)] + place.offset_bytes;
}

void Operation::fail(Error error) {
  if (done()) return;
  in_flight_.clear();
  failed_ = true;
  result_ = tl::unexpected<Error>(std::move(error));
}

std::vector<int> Operation::awaited_peers() const {
  std::vector<int> peers;
  for (const auto kind : {Action::Kind::kReceive, Action::Kind::kSend}) {
    for (const InFlight& message : in_flight_) {
      const Action& action = schedule_.actions[at(message.action)];
      if (action.kind == kind) peers.push_back(action.peer);
    }
    if (!peers.empty()) break;  // a send waits for its receiver only when nothing is to be received
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace muster::comm
