#include "trainer/device/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace muster::device {
namespace {

class HostMemory final : public Memory {
 public:
  HostMemory(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  ~HostMemory() override { std::free(data_); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  void* data() override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  void* data_;
  std::size_t bytes_;
};

}  // namespace

Result<std::unique_ptr<Memory>> allocate_host_memory(std::size_t bytes) {
  // aligned_alloc wants a multiple of the alignment; at least one line, so that data() is never null.
  const std::size_t lines =
      std::max<std::size_t>(1, bytes / kAlignmentBytes + (bytes % kAlignmentBytes != 0));
  if (lines > SIZE_MAX / kAlignmentBytes) {
    return fail(ErrorCode::kInvalidArgument, "cannot allocate {} bytes: too large", bytes);
  }
  void* data = std::aligned_alloc(kAlignmentBytes, lines * kAlignmentBytes);
  if (data == nullptr) {
    return fail(ErrorCode::kUnavailable, "cannot allocate {} bytes: out of memory", bytes);
  }
  std::memset(data, 0, lines * kAlignmentBytes);
  return std::make_unique<HostMemory>(data, bytes);
}

}  // namespace muster::device
