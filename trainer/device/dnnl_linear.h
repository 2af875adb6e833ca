// The linear layer's three matrix products through oneDNN. Used by the cpu device only.
//
// Primitives are made once for each shape and kept. Products that read weights read a reordered copy
// (DnnlWeights): shards have few rows, so reading the weights is most of the work, and it is up to twice as
// quick from a layout without power-of-two strides. Gradients come out in the plain layout: [out, in],
// contiguous.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "common/status.h"
#include "trainer/device/dnnl_engine.h"
#include "trainer/device/dnnl_reorder.h"
#include "trainer/device/tensor.h"

namespace muster::device {

enum class WeightLayout : std::uint8_t {
  kByIsa,    // kLibrary with AVX-512, else kPadded
  kPadded,   // row-major, rows an odd number of cache lines long
  kLibrary,  // what oneDNN prefers; blocked, with AVX-512
};

class DnnlLinear {
 public:
  // `engine` must outlive it.
  DnnlLinear(DnnlEngine& engine, WeightLayout layout);

  // At least one row.
  Status forward(const Tensor& x, const Tensor& weight, const Tensor& bias, ParametersVersion version,
                 const Tensor& y);
  Status backward_data(const Tensor& dy, const Tensor& weight, ParametersVersion version, const Tensor& dx);
  Status backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dweight, const Tensor& dbias);

  // "padded weights"
  std::string info() const;

 private:
  enum class Product : std::uint8_t { kForward, kBackwardData, kBackwardWeights };

  struct Shape {
    Product product = Product::kForward;
    std::int64_t rows = 0;
    std::int64_t in = 0;
    std::int64_t out = 0;
    bool bias = false;
    bool operator<(const Shape& other) const {
      return std::tie(product, rows, in, out, bias) <
             std::tie(other.product, other.rows, other.in, other.out, other.bias);
    }
  };

  // From the caller's layout to the one that a primitive reads.
  struct WeightCopy {
    dnnl::memory::desc plain;
    dnnl::memory::desc wanted;
  };

  struct Prepared {
    DnnlOperation operation;
    WeightCopy copy;
  };

  Result<Prepared*> prepared(const Shape& shape);
  // These throw dnnl::error.
  Prepared prepare_forward(const Shape& shape);
  Prepared prepare_backward_data(const Shape& shape);
  Prepared prepare_backward_weights(const Shape& shape);
  // Forward reads it as its transpose, so that one copy a step serves both products.
  static WeightCopy padded_copy(const Shape& shape);

  DnnlEngine& engine_;
  bool library_layout_;
  DnnlWeights weights_;
  std::map<Shape, Prepared> prepared_;
};

}  // namespace muster::device
