// SEAM: who grants the nodes. Implementation: the local scheduler, which grants this machine, or the hosts of
// the host file, at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/plan.h"

namespace muster {

struct Allocation {
  std::string id;           // "local"
  std::vector<Host> hosts;  // empty: this machine
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Does not wait for anything.
  virtual Result<Allocation> allocate(const Plan& plan) = 0;
  virtual Status release(const Allocation& allocation) = 0;
};

// Checks that the machine (or the hosts) can hold the ranks asked for.
std::unique_ptr<Scheduler> make_local_scheduler();

}  // namespace muster
