// A view of a dense array: pointer, element type, shape, where it lives, and in which order its elements lie.
// Owns nothing: the memory belongs to a device::Memory, a communicator's bucket or the caller, and must
// outlive the view.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace muster::device {

enum class DType : std::uint8_t { kFloat32, kFloat64, kInt32, kUint8 };

// kHost: ordinary memory that any CPU code may touch.
enum class Location : std::uint8_t { kHost, kCuda };

// The order of elements. Images [n, c, h, w] may lie channels-last, as if their shape were [n, h, w, c]: what
// convolutions are fast on. The shape says [n, c, h, w] either way. Everything else is row-major, parameters
// and their gradients always.
enum class Layout : std::uint8_t { kRowMajor, kChannelsLast };

inline constexpr std::size_t kAlignmentBytes = 64;  // of all memory and of each tensor in a bucket

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 8;
    case DType::kUint8:
      return 1;
    case DType::kFloat32:
    case DType::kInt32:
      break;
  }
  return 4;
}

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::kFloat32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::kFloat64;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::kInt32;
  } else {
    static_assert(std::is_same_v<T, std::uint8_t>);
    return DType::kUint8;
  }
}

struct Tensor {
  static constexpr int kRankMax = 4;

  void* data = nullptr;  // null: "no tensor", where an operation says that it takes none
  DType dtype = DType::kFloat32;
  Location location = Location::kHost;
  Layout layout = Layout::kRowMajor;
  int rank = 0;
  std::array<std::int64_t, kRankMax> shape{};

  Tensor() = default;
  Tensor(void* data_in, DType dtype_in, std::span<const std::int64_t> shape_in,
         Location location_in = Location::kHost)
      : data(data_in), dtype(dtype_in), location(location_in), rank(static_cast<int>(shape_in.size())) {
    assert(shape_in.size() <= kRankMax);
    for (std::size_t axis = 0; axis < shape_in.size(); ++axis) shape[axis] = shape_in[axis];
  }
  Tensor(void* data_in, DType dtype_in, std::initializer_list<std::int64_t> shape_in,
         Location location_in = Location::kHost)
      : Tensor(data_in, dtype_in, std::span<const std::int64_t>(shape_in.begin(), shape_in.size()),
               location_in) {}

  explicit operator bool() const { return data != nullptr; }

  std::int64_t elements() const {
    std::int64_t count = 1;
    for (int axis = 0; axis < rank; ++axis) count *= shape[axis];
    return count;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  std::int64_t rows() const { return rank == 0 ? 1 : shape[0]; }
  // Elements of one row: the product of all axes but the first.
  std::int64_t row_elements() const {
    std::int64_t count = 1;
    for (int axis = 1; axis < rank; ++axis) count *= shape[axis];
    return count;
  }

  template <class T>
  T* as() const {
    assert(dtype == dtype_of<T>());
    return static_cast<T*>(data);
  }

  // The same tensor of another shape with as many elements, row-major.
  Tensor reshaped(std::initializer_list<std::int64_t> new_shape) const {
    assert(layout == Layout::kRowMajor);
    const Tensor view(data, dtype, new_shape, location);
    assert(view.elements() == elements());
    return view;
  }
  // The same memory seen as [rows, row_elements].
  Tensor as_matrix() const { return reshaped({rows(), row_elements()}); }
};

}  // namespace muster::device
