// SEAM: who is alive, and why the group failed. Separate from progress: a rank that computes for an hour is
// alive as long as its heartbeat is; a rank that was stopped or killed is not, whatever it was doing.
//
// The first fault that a rank learns of is the group's fault: every rank that can be reached is told, and all
// of them report it. Threads: everything may be called from any thread, and nothing blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/status.h"

namespace muster::comm {

struct Fault {
  Fault() = default;
  Fault(Error cause, std::optional<int> rank) : error(std::move(cause)), blamed_rank(rank) {}

  Error error;
  std::optional<int> blamed_rank;  // the rank whose absence, silence or disagreement it is, where known
};

class Liveness {
 public:
  virtual ~Liveness() = default;

  // The group's fault, if there is one. Cheap enough for every poll.
  virtual std::optional<Fault> fault() = 0;
  // Adds a fault and tells the others; ignored if there is one already.
  virtual void report(Fault fault) = 0;
  // This rank ends in good order: its silence is no fault from now on.
  virtual void leave() = 0;
  // Since when a peer is known to have left in good order. Whoever still waits for it waits in vain.
  virtual std::optional<std::chrono::steady_clock::time_point> left_since(int rank) = 0;

  // How many collectives this rank has started, and the peer's number as of its last heartbeat: tells a late
  // rank from one that waits itself.
  virtual void set_progress(std::uint64_t collectives_started) = 0;
  virtual std::uint64_t progress_of(int rank) = 0;

  // "rank 3 on host n2"
  virtual std::string describe(int rank) const = 0;
};

// Keeps the first fault. Helper of the implementations.
class FirstFault {
 public:
  // True if this was the first one.
  bool set(Fault fault);
  std::optional<Fault> get() const;

 private:
  std::atomic<bool> is_set_{false};
  mutable std::mutex mutex_;
  Fault fault_;
};

}  // namespace muster::comm
