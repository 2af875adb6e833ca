// One collective under way on one rank: runs a Schedule over a Transport. A state machine without waits or
// threads of its own; whoever owns it calls progress() until it is done.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "trainer/comm/aligned_buffer.h"
#include "trainer/comm/schedule.h"
#include "trainer/comm/transport.h"

namespace muster::comm {

class Operation {
 public:
  struct Buffers {
    std::byte* output = nullptr;
    std::vector<const std::byte*> inputs;
    AlignedBuffer scratch;
  };

  // header: what all messages of this collective have in common. The transport outlives the operation.
  Operation(Transport& transport, Schedule schedule, const MessageHeader& header, Buffers buffers,
            Deadline deadline);

  // Does whatever can be done without waiting. True if anything moved. After an error, call fail().
  Result<bool> progress();
  // Ends the operation; its transfers are given up.
  void fail(Error error);

  bool done() const { return failed_ || remaining_ == 0; }
  const Status& result() const { return result_; }

  // The peers whose messages are due, and the one that progress() failed with.
  std::vector<int> awaited_peers() const;
  std::optional<int> failed_peer() const { return failed_peer_; }
  const MessageHeader& header() const { return header_; }
  const Deadline& deadline() const { return deadline_; }
  AlignedBuffer take_scratch() { return std::move(buffers_.scratch); }

 private:
  // The messages to one peer or from one peer: posted in order, a few at a time.
  struct Channel {
    std::vector<int> actions;
    std::size_t next = 0;
    int in_flight = 0;
  };
  struct InFlight {
    int action;
    Channel* channel;
    std::unique_ptr<Transfer> transfer;
  };

  void build_channels();
  void build_dependencies();
  Status post_ready();
  Status post(Channel& channel, int action);
  void complete(int action);
  void compute(const Action& action);
  std::byte* writable(const Place& place) const;
  const std::byte* readable(const Place& place) const;

  Transport& transport_;
  Schedule schedule_;
  MessageHeader header_;
  Buffers buffers_;
  Deadline deadline_;
  std::vector<Channel> channels_;
  std::vector<int> waiting_for_;       // unfinished dependencies of each action
  std::vector<int> successors_begin_;  // successors_[begin[a] … begin[a + 1]) wait for action a
  std::vector<int> successors_;
  std::vector<int> ready_sums_;  // work list of complete()
  std::vector<InFlight> in_flight_;
  std::size_t remaining_ = 0;
  bool failed_ = false;
  Status result_;
  std::optional<int> failed_peer_;
};

}  // namespace muster::comm
