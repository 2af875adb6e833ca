#include "trainer/checkpoint/snapshot.h"

#include <cstring>

#include "trainer/checkpoint/assemble.h"

namespace muster::checkpoint {

void Snapshot::take(std::span<const TensorSlice> slices) {
  std::size_t elements = 0;
  for (const TensorSlice& slice : slices)
    elements += static_cast<std::size_t>(slice_bytes(slice) / kElementBytes);
  if (copy_.size() < elements) copy_.resize(elements);
  slices_.assign(slices.begin(), slices.end());
  float* out = copy_.data();
  for (TensorSlice& slice : slices_) {
    const auto bytes = static_cast<std::size_t>(slice_bytes(slice));
    if (bytes > 0) std::memcpy(out, slice.data, bytes);
    slice.data = out;
    out += bytes / sizeof(float);
  }
}

}  // namespace muster::checkpoint
