// The linear layer's three matrix products through oneDNN. Used by the cpu device only; this is the one
// header (besides its .cc) that knows oneDNN.
//
// Primitives are made once for each shape and kept. Products that read weights read a reordered copy, kept as
// long as the ParametersVersion stays the same: shards have few rows, so reading the weights is most of the
// work, and it is up to twice as quick from a layout without power-of-two strides. Results do not depend on
// whether a copy was kept. Gradients come out in the plain layout: [out, in], contiguous.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "common/status.h"
#include "trainer/device/device.h"

namespace muster::device {

enum class WeightLayout : std::uint8_t {
  kByIsa,    // kLibrary with AVX-512, else kPadded
  kPadded,   // row-major, rows an odd number of cache lines long
  kLibrary,  // what oneDNN prefers; blocked, with AVX-512
};

class DnnlLinear {
 public:
  static Result<std::unique_ptr<DnnlLinear>> create(int threads, WeightLayout layout);

  Status forward(const Tensor& x, const Tensor& weight, const Tensor& bias, ParametersVersion version,
                 const Tensor& y);
  Status backward_data(const Tensor& dy, const Tensor& weight, ParametersVersion version, const Tensor& dx);
  Status backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dweight, const Tensor& dbias);

  // "oneDNN 2.6.3, AVX2, 1 thread, padded weights"
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

  // A primitive with its argument list, ready to run but for the addresses.
  struct Operation {
    dnnl::primitive primitive;
    dnnl::memory input;    // x; dy in kBackwardData
    dnnl::memory weights;  // dy in kBackwardWeights
    dnnl::memory bias;
    dnnl::memory output;
    dnnl::memory scratchpad;
    dnnl::memory::desc plain_weights;   // the caller's layout, as this product sees it
    dnnl::memory::desc wanted_weights;  // the layout that the primitive reads
    std::vector<dnnl_exec_arg_t> arguments;
  };

  // A weight tensor in the layout that one kind of product reads.
  struct Copy {
    Product product;
    dnnl::memory::desc layout;
    ParametersVersion version = 0;
    dnnl::memory plain;
    dnnl::memory reordered;
    dnnl::reorder reorder;
  };

  DnnlLinear(int threads, WeightLayout layout, dnnl::engine engine, dnnl::stream stream);

  Result<Operation*> operation(const Shape& shape);
  // These throw dnnl::error.
  Operation make_forward(const Shape& shape);
  Operation make_backward_data(const Shape& shape);
  Operation make_backward_weights(const Shape& shape);
  dnnl::memory::desc wanted_weights(std::int64_t rows, std::int64_t columns) const;
  void finish(Operation& operation, const dnnl::memory::desc& scratchpad);

  Result<void*> weights_for(Product product, const Operation& operation, const Tensor& weight,
                            ParametersVersion version);
  Copy make_copy(Product product, const Operation& operation, const Tensor& weight);
  Status run(Operation& operation);

  int threads_;
  bool library_layout_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unique_ptr<Memory> scratchpad_;
  std::map<Shape, Operation> operations_;
  std::map<const void*, std::vector<Copy>> copies_;
};

}  // namespace muster::device
