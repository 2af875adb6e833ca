// Zero-initialised device memory that lies like the parameters' buckets: one optimizer state.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "trainer/device/device.h"
#include "trainer/nn/bucket_layout.h"

namespace muster::optim {

class StateBuckets {
 public:
  static Result<StateBuckets> create(device::Device& device, const nn::BucketLayout& layout,
                                     device::DType dtype);
  std::span<const device::Tensor> views() const { return views_; }

 private:
  std::vector<std::unique_ptr<device::Memory>> memory_;
  std::vector<device::Tensor> views_;
};

}  // namespace muster::optim
