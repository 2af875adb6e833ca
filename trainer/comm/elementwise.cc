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

}  // namespace muster::comm
