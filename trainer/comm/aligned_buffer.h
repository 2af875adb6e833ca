// Memory on a 64-byte boundary: vector loads and cache lines start together. Move only.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace muster::comm {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Not initialised. Throws std::bad_alloc.
  explicit AlignedBuffer(std::size_t bytes)
      : bytes_(bytes), memory_(static_cast<std::byte*>(::operator new(bytes == 0 ? 1 : bytes, kAlignment))) {}

  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> span() const { return {memory_.get(), bytes_}; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Deleter {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };

  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte, Deleter> memory_;
};

}  // namespace muster::comm
