// A dataset whose fetches a test may hold up, delay or break.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/data/dataset.h"

namespace muster::testing {

// Holds up whoever waits at it, until it is opened; a minute at most, so that no test hangs.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class DisturbedDataset final : public data::Dataset {
 public:
  // Called before each fetch with its number, from 0; what it returns is the fetch's result if it is an
  // error.
  using Disturbance = std::function<Status(int fetch)>;

  DisturbedDataset(std::shared_ptr<const data::Dataset> inner, Disturbance disturb)
      : inner_(std::move(inner)), disturb_(std::move(disturb)) {}
  std::int64_t size() const override { return inner_->size(); }
  const std::vector<std::int64_t>& sample_shape() const override { return inner_->sample_shape(); }
  std::int64_t classes() const override { return inner_->classes(); }
  const std::string& fingerprint() const override { return inner_->fingerprint(); }
  Status fetch(std::span<const std::int64_t> ids, float* inputs, std::int32_t* labels) const override {
    MUSTER_TRY(disturb_(fetches_++));
    return inner_->fetch(ids, inputs, labels);
  }

 private:
  std::shared_ptr<const data::Dataset> inner_;
  Disturbance disturb_;
  mutable std::atomic<int> fetches_{0};
};

}  // namespace muster::testing
