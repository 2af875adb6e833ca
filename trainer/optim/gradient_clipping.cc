#include "trainer/optim/gradient_clipping.h"

#include <algorithm>
#include <cassert>

namespace muster::optim {
namespace {

// Cuts lie where a tensor may begin.
constexpr std::int64_t kUnit = static_cast<std::int64_t>(device::kAlignmentBytes / sizeof(float));

}  // namespace

Result<double> segment_squared_norm(device::Device& device, std::span<const device::Tensor> buckets,
                                    std::int64_t index, std::int64_t segments) {
  assert(index >= 0 && index < segments);
  std::int64_t units = 0;
  for (const device::Tensor& bucket : buckets) units += bucket.elements() / kUnit;
  const std::int64_t begin = units * index / segments * kUnit;
  const std::int64_t end = units * (index + 1) / segments * kUnit;
  double sum = 0;
  std::int64_t bucket_begin = 0;
  for (const device::Tensor& bucket : buckets) {
    assert(bucket.elements() % kUnit == 0);
    const std::int64_t bucket_end = bucket_begin + bucket.elements();
    const std::int64_t from = std::max(begin, bucket_begin);
    const std::int64_t to = std::min(end, bucket_end);
    if (from < to) {
      const device::Tensor piece(bucket.as<float>() + (from - bucket_begin), bucket.dtype, {to - from},
                                 bucket.location);
      MUSTER_ASSIGN(const double part, device.squared_norm(piece));
      sum += part;
    }
    bucket_begin = bucket_end;
  }
  return sum;
}

double clip_factor(double norm, double max_norm) {
  constexpr double kEpsilon = 1e-6;
  if (max_norm == 0) return 1;
  return std::min(1.0, max_norm / (norm + kEpsilon));
}

}  // namespace muster::optim
