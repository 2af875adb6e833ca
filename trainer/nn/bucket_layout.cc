#include "trainer/nn/bucket_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>

#include "common/sha256.h"

namespace muster::nn {
namespace {

constexpr std::int64_t kElementBytes = 4;
constexpr std::int64_t kAlignmentElements =
    static_cast<std::int64_t>(device::kAlignmentBytes) / kElementBytes;

std::int64_t aligned(std::int64_t elements) {
  return (elements + kAlignmentElements - 1) / kAlignmentElements * kAlignmentElements;
}

std::string hash_of(const BucketLayout& layout) {
  std::string text = "muster bucket layout 1\n";
  for (const Placement& placement : layout.placements) {
    text += fmt::format("{} [{}] {} {}\n", placement.name, fmt::join(placement.shape, ","), placement.bucket,
                        placement.offset);
  }
  text += fmt::format("buckets {}\n", fmt::join(layout.bucket_elements, ","));
  return sha256_hex(text.data(), text.size());
}

}  // namespace

std::size_t BucketLayout::bucket_bytes(std::size_t bucket, device::DType dtype) const {
  return static_cast<std::size_t>(bucket_elements.at(bucket)) * device::size_of(dtype);
}

BucketLayout plan_buckets(std::span<const ParameterSpec> specs, std::int64_t bucket_bytes_max) {
  BucketLayout layout;
  for (const ParameterSpec& spec : specs) {
    const std::int64_t elements = spec.elements();
    const std::int64_t room = aligned(elements);
    const bool full = bucket_bytes_max > 0 && !layout.bucket_elements.empty() &&
                      (layout.bucket_elements.back() + room) * kElementBytes > bucket_bytes_max;
    if (layout.bucket_elements.empty() || full) layout.bucket_elements.push_back(0);
    layout.placements.push_back({.name = spec.name,
                                 .shape = spec.shape,
                                 .bucket = layout.bucket_elements.size() - 1,
                                 .offset = layout.bucket_elements.back(),
                                 .elements = elements});
    layout.bucket_elements.back() += room;
  }
  layout.hash = hash_of(layout);
  return layout;
}

std::vector<device::Tensor> parameter_views(const BucketLayout& layout, std::span<void* const> bases,
                                            device::DType dtype, device::Location location) {
  assert(bases.size() == layout.buckets());
  std::vector<device::Tensor> views;
  views.reserve(layout.placements.size());
  for (const Placement& placement : layout.placements) {
    auto* base = static_cast<std::byte*>(bases[placement.bucket]);
    views.emplace_back(base + static_cast<std::size_t>(placement.offset) * device::size_of(dtype), dtype,
                       placement.shape, location);
  }
  return views;
}

std::vector<device::Tensor> bucket_views(const BucketLayout& layout, std::span<void* const> bases,
                                         device::DType dtype, device::Location location) {
  assert(bases.size() == layout.buckets());
  std::vector<device::Tensor> views;
  views.reserve(bases.size());
  for (std::size_t bucket = 0; bucket < bases.size(); ++bucket) {
    views.emplace_back(bases[bucket], dtype,
                       std::initializer_list<std::int64_t>{layout.bucket_elements[bucket]}, location);
  }
  return views;
}

}  // namespace muster::nn
