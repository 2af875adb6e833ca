// Flat buckets in ordinary memory, laid out as a BucketLayout says: parameters or gradients of a test's
// model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "trainer/nn/bucket_layout.h"

namespace muster::testing {

class FlatBuckets {
 public:
  // offset_bytes moves every bucket off its alignment (a multiple of the element's size).
  explicit FlatBuckets(const nn::BucketLayout& layout, device::DType dtype = device::DType::kFloat32,
                       std::size_t offset_bytes = 0) {
    for (std::size_t bucket = 0; bucket < layout.buckets(); ++bucket) {
      const std::size_t bytes = layout.bucket_bytes(bucket, dtype) + offset_bytes + device::kAlignmentBytes;
      void* memory =
          std::aligned_alloc(device::kAlignmentBytes, (bytes + device::kAlignmentBytes - 1) /
                                                          device::kAlignmentBytes * device::kAlignmentBytes);
      if (memory == nullptr) throw std::runtime_error("out of memory");
      memory_.emplace_back(static_cast<std::byte*>(memory));
      std::fill_n(memory_.back().get(), bytes, std::byte{0});
      bases_.push_back(memory_.back().get() + offset_bytes);
    }
    tensors = nn::parameter_views(layout, bases_, dtype);
    flat = nn::bucket_views(layout, bases_, dtype);
  }

  std::vector<device::Tensor> tensors;  // one a parameter
  std::vector<device::Tensor> flat;     // one a bucket

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> memory_;
  std::vector<void*> bases_;
};

}  // namespace muster::testing
