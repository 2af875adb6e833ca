#include "trainer/comm/liveness.h"

#include <utility>

namespace muster::comm {

bool FirstFault::set(Fault fault) {
  const std::lock_guard lock(mutex_);
  if (is_set_.load(std::memory_order_relaxed)) return false;
  fault_ = std::move(fault);
  is_set_.store(true, std::memory_order_release);
  return true;
}

std::optional<Fault> FirstFault::get() const {
  if (!is_set_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return fault_;
}

}  // namespace muster::comm
