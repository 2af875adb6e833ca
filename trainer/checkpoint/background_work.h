// One piece of work at a time on a thread of its own, with every signal blocked there: signals are for the
// threads that wait for them. Threads: one thread owns the object.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>

#include "common/status.h"

namespace muster::checkpoint {

class BackgroundWork {
 public:
  using Job = std::function<Result<nlohmann::json>()>;

  BackgroundWork() = default;
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;
  ~BackgroundWork() = default;  // waits for the job

  // Only when not busy. An exception of the job becomes kInternal.
  void start(Job job);
  bool busy() const;
  // Until the job is done, but no longer than this.
  void wait(std::chrono::milliseconds longest) const;
  // What the last job returned, once; null if there was none since. Only when not busy.
  Result<nlohmann::json> take();

 private:
  std::future<Result<nlohmann::json>> outcome_;
};

}  // namespace muster::checkpoint
