// A copy of a rank's slices, so that training can go on while they are written. The memory is allocated once
// and reused by every later copy that fits. Threads: one at a time.
#pragma once

#include <span>
#include <vector>

#include "trainer/checkpoint/checkpoint_store.h"

namespace muster::checkpoint {

class Snapshot {
 public:
  // Slices that passed check_slices(). Throws std::bad_alloc.
  void take(std::span<const TensorSlice> slices);
  // The same slices; their data is the copy, which the next take() overwrites.
  std::span<const TensorSlice> slices() const { return slices_; }

 private:
  std::vector<TensorSlice> slices_;
  std::vector<float> copy_;
};

}  // namespace muster::checkpoint
