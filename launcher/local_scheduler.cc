// The local scheduler grants this machine, or the hosts of the host file, at once.
#include "launcher/scheduler.h"

namespace muster {
namespace {

class LocalScheduler final : public Scheduler {
 public:
  Result<Allocation> allocate(const Plan& plan) override {
    if (plan.hosts.empty()) return Allocation{"local", {}};
    int slots = 0;
    for (const Host& host : plan.hosts) slots += host.slots;
    if (slots < plan.world_size) {
      return fail(ErrorCode::kUnavailable,
                  "the hosts have {} slots, the task needs {} ({} workers with {} ranks each)", slots,
                  plan.world_size, plan.num_workers, plan.ranks_per_worker);
    }
    return Allocation{"local", plan.placement.empty() ? plan.hosts : plan.placement};
  }
  Status release(const Allocation& /*allocation*/) override { return {}; }
};

}  // namespace

std::unique_ptr<Scheduler> make_local_scheduler() { return std::make_unique<LocalScheduler>(); }

}  // namespace muster
