#include "trainer/comm/elementwise.h"

namespace muster::comm {
namespace {

// Three loops, because a compiler vectorises each only when it knows which arrays are the same.
template <class T>
void add_typed(T* target, const T* left, const T* right, std::size_t count) {
  if (target == left) {
    const T* __restrict other = right;
    T* __restrict sum = target;
    for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<T>(sum[i] + other[i]);
  } else if (target == right) {
    const T* __restrict other = left;
    T* __restrict sum = target;
    for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<T>(other[i] + sum[i]);
  } else {
    T* __restrict sum = target;
    const T* __restrict first = left;
    const T* __restrict second = right;
    for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<T>(first[i] + second[i]);
  }
}

template <class T>
void add_four_as(void* first, const void* second, const void* third, const void* fourth, std::size_t count) {
  T* __restrict a = static_cast<T*>(first);
  const T* __restrict b = static_cast<const T*>(second);
  const T* __restrict c = static_cast<const T*>(third);
  const T* __restrict d = static_cast<const T*>(fourth);
  for (std::size_t i = 0; i < count; ++i) {
    a[i] = static_cast<T>(static_cast<T>(a[i] + b[i]) + static_cast<T>(c[i] + d[i]));
  }
}

template <class T>
void add_as(void* target, const void* left, const void* right, std::size_t count) {
  add_typed(static_cast<T*>(target), static_cast<const T*>(left), static_cast<const T*>(right), count);
}

}  // namespace

void add(void* target, const void* left, const void* right, std::size_t count, DType dtype) {
  switch (dtype) {
    case DType::kByte:
      return add_as<unsigned char>(target, left, right, count);
    case DType::kFloat32:
      return add_as<float>(target, left, right, count);
    case DType::kFloat64:
      return add_as<double>(target, left, right, count);
  }
}

void add_four(void* first, const void* second, const void* third, const void* fourth, std::size_t count,
              DType dtype) {
  switch (dtype) {
    case DType::kByte:
      return add_four_as<unsigned char>(first, second, third, fourth, count);
    case DType::kFloat32:
      return add_four_as<float>(first, second, third, fourth, count);
    case DType::kFloat64:
      return add_four_as<double>(first, second, third, fourth, count);
  }
}

}  // namespace muster::comm
