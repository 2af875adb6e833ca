// SEAM: who grants the nodes. The local scheduler grants the machine (or the host file) at once; slurm/ asks
// Slurm.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/plan.h"

namespace muster {

struct Allocation {
  std::string id;           // "local" or the scheduler's job id
  std::vector<Host> hosts;  // empty: this machine
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Blocks at most as long as the scheduler's own command takes; a queued job is a later concern of its
  // caller.
  virtual Result<Allocation> allocate(const Plan& plan) = 0;
  virtual Status release(const Allocation& allocation) = 0;
};

// Checks that the machine (or the hosts) can hold the ranks asked for.
std::unique_ptr<Scheduler> make_local_scheduler();

}  // namespace muster
