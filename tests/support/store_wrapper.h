// A checkpoint store around another one, for tests that change one of its answers.
#pragma once

#include <memory>
#include <utility>

#include "trainer/checkpoint/checkpoint_store.h"

namespace muster::testing {

class StoreWrapper : public checkpoint::CheckpointStore {
 public:
  explicit StoreWrapper(std::unique_ptr<checkpoint::CheckpointStore> inner) : inner_(std::move(inner)) {}
  Status begin_save(const checkpoint::SaveRequest& request) override { return inner_->begin_save(request); }
  bool saving() const override { return inner_->saving(); }
  bool busy() const override { return inner_->busy(); }
  Result<std::optional<checkpoint::SaveReport>> advance() override { return inner_->advance(); }
  Result<checkpoint::SaveReport> finish_save(std::chrono::milliseconds timeout) override {
    return inner_->finish_save(timeout);
  }
  Result<checkpoint::LoadOutcome> load_latest() override { return inner_->load_latest(); }

 private:
  std::unique_ptr<checkpoint::CheckpointStore> inner_;
};

}  // namespace muster::testing
