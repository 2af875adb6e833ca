// Where each parameter lies in the flat buckets that parameters, gradients and optimizer state share. Pure: a
// function of the parameter list and one option, so that all ranks, all instruction sets and all restarts
// have the same plan; its hash says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/device/tensor.h"
#include "trainer/nn/parameter.h"

namespace muster::nn {

struct Placement {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t bucket = 0;
  std::int64_t offset = 0;  // in elements from the bucket's start; a multiple of 16 (64 bytes of fp32)
  std::int64_t elements = 0;
};

struct BucketLayout {
  std::vector<Placement> placements;          // in the order of the specs
  std::vector<std::int64_t> bucket_elements;  // each a multiple of 16; what no placement covers is padding
  std::string hash;                           // SHA-256 over all of the above

  std::size_t buckets() const { return bucket_elements.size(); }
  std::size_t bucket_bytes(std::size_t bucket, device::DType dtype = device::DType::kFloat32) const;
};

// Parameters go into buckets in order; a new bucket begins where the next parameter would exceed
// bucket_bytes_max (of fp32; 0: no limit). A parameter larger than the limit has a bucket to itself.
// Backward finishes the last bucket first.
BucketLayout plan_buckets(std::span<const ParameterSpec> specs, std::int64_t bucket_bytes_max = 0);

// One view a parameter into buckets that begin at `bases` (one a bucket). Padding must be zero, and stays so.
std::vector<device::Tensor> parameter_views(const BucketLayout& layout, std::span<void* const> bases,
                                            device::DType dtype = device::DType::kFloat32,
                                            device::Location location = device::Location::kHost);

// One flat view a bucket, padding included: what all-reduce and the optimizer work on.
std::vector<device::Tensor> bucket_views(const BucketLayout& layout, std::span<void* const> bases,
                                         device::DType dtype = device::DType::kFloat32,
                                         device::Location location = device::Location::kHost);

}  // namespace muster::nn
