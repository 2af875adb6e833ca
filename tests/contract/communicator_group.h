// What the communicator's contract tests need from the binary that runs them: a way to run a body on every
// rank of a fresh group. One binary does it with threads, the other with the ranks of mpirun.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/communicator_options.h"

namespace muster::comm::contract {

struct Group {
  Algorithm algorithm = Algorithm::kTree;
  int size = 0;  // threads; 0: under mpirun, as many ranks as there are
};

inline std::ostream& operator<<(std::ostream& out, const Group& group) {
  return out << make_reduction(group.algorithm)->name() << " on " << group.size;
}

inline std::string name_of_group(const ::testing::TestParamInfo<Group>& info) {
  return std::string(make_reduction(info.param.algorithm)->name()) + "_" + std::to_string(info.param.size);
}

// Defined by the test binary. Returns when all ranks that it runs have returned from the body.
void run_ranks(const CommunicatorOptions& options, int size, const std::function<void(Communicator&)>& body);

class CommunicatorContract : public ::testing::TestWithParam<Group> {
 protected:
  CommunicatorOptions options() const {
    CommunicatorOptions result;
    result.algorithm = GetParam().algorithm;
    result.generation = 3;
    result.segment_bytes = 256;  // many segments even of short buffers
    return result;
  }
  void run(const CommunicatorOptions& with, const std::function<void(Communicator&)>& body) const {
    run_ranks(with, GetParam().size, body);
  }
  void run(const std::function<void(Communicator&)>& body) const { run(options(), body); }
};

// Far beyond what anything takes: a hang becomes a failure.
constexpr std::chrono::milliseconds kGenerous{60'000};

inline CollectiveOptions of_step(std::int64_t step, std::int32_t bucket = 0) {
  CollectiveOptions options;
  options.step = step;
  options.bucket = bucket;
  options.timeout = kGenerous;
  return options;
}

// `count` elements, `offset` elements behind a 64-byte boundary, with guards on both sides.
template <class T>
class GuardedBuffer {
 public:
  GuardedBuffer(std::size_t count, std::size_t offset)
      : count_(count), memory_(count + 2 * kGuard + 64, guard()) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data() + kGuard);
    begin_ = kGuard + (64 - address % 64) % 64 / sizeof(T) + offset;
  }
  T* data() { return memory_.data() + begin_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return data()[i]; }
  bool guards_are_intact() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < begin_ || i >= begin_ + count_) && memory_[i] != guard()) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 8;
  static constexpr T guard() { return static_cast<T>(77); }
  std::size_t count_;
  std::size_t begin_ = 0;
  std::vector<T> memory_;
};

// Whole numbers so small that every sum of them is exact, in any order.
template <class T>
T value_of(int rank, std::size_t i) {
  return static_cast<T>((i * 7 + static_cast<std::size_t>(rank) * 13) % 101);
}

template <class T>
T sum_over_ranks(int size, std::size_t i) {
  T sum{};
  for (int rank = 0; rank < size; ++rank) sum = static_cast<T>(sum + value_of<T>(rank, i));
  return sum;
}

template <class T>
constexpr DType dtype_of() {
  if constexpr (sizeof(T) == 1) return DType::kByte;
  return sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
}

}  // namespace muster::comm::contract
