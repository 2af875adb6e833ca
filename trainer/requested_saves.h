// Who asked for a checkpoint and waits for it: filled by the thread that hears from the supervisor, emptied
// by the one that trains.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace muster {

class RequestedSaves {
 public:
  void add(std::string request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return requests_.empty();
  }
  // All that were added so far; a save that begins now answers them.
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
};

}  // namespace muster
