#include "trainer/optim/state_buckets.h"

#include <utility>

namespace muster::optim {

Result<StateBuckets> StateBuckets::create(device::Device& device, const nn::BucketLayout& layout,
                                          device::DType dtype) {
  StateBuckets state;
  std::vector<void*> bases;
  for (std::size_t bucket = 0; bucket < layout.buckets(); ++bucket) {
    MUSTER_ASSIGN(auto memory, device.allocate(layout.bucket_bytes(bucket, dtype)));
    bases.push_back(memory->data());
    state.memory_.push_back(std::move(memory));
  }
  state.views_ = nn::bucket_views(layout, bases, dtype, device.location());
  return state;
}

}  // namespace muster::optim
