// The linear layer's three matrix products through oneDNN's inner-product primitives. Used by the cpu device
// only; this is the one header (besides its .cc) that knows oneDNN.
//
// Primitives are made once for each shape and kept. Where oneDNN's kernels want weights in a blocked layout
// (AVX-512), a reordered copy is kept as long as the ParametersVersion stays the same; elsewhere its kernels
// read the plain layout as quickly. Results are those of the plain layout: [out, in], fp32, contiguous.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "trainer/device/device.h"

namespace muster::device {

enum class WeightLayout : std::uint8_t {
  kByIsa,    // kLibrary with AVX-512, else kPlain
  kPlain,    // products read the plain layout
  kLibrary,  // products read the layout that oneDNN prefers
};

class DnnlLinear {
 public:
  static Result<std::unique_ptr<DnnlLinear>> create(int threads, WeightLayout layout);

  Status forward(const Tensor& x, const Tensor& weight, const Tensor& bias, ParametersVersion version,
                 const Tensor& y);
  Status backward_data(const Tensor& dy, const Tensor& weight, ParametersVersion version, const Tensor& dx);
  Status backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dweight, const Tensor& dbias);

  // "oneDNN 2.6.3, AVX2, 1 thread, plain weights"
  std::string info() const;

 private:
  enum class Product : std::uint8_t { kForward, kBackwardData, kBackwardWeights };

  struct Shape {
    Product product = Product::kForward;
    std::int64_t rows = 0;
    std::int64_t in = 0;
    std::int64_t out = 0;
    bool bias = false;
    auto operator<=>(const Shape&) const = default;
  };

  // A primitive with its argument list, ready to run but for the addresses.
  struct Operation {
    dnnl::primitive primitive;
    dnnl::memory input;    // x or dy
    dnnl::memory weights;  // weight, or x's partner dy in kBackwardWeights
    dnnl::memory bias;
    dnnl::memory output;
    dnnl::memory scratchpad;
    dnnl::memory::desc weights_layout;
    bool packed = false;  // weights_layout is not the plain one
    std::vector<dnnl_exec_arg_t> arguments;
  };

  // A weight tensor in another layout.
  struct Packed {
    dnnl::memory::desc layout;
    ParametersVersion version = 0;
    dnnl::memory plain;
    dnnl::memory packed;
    dnnl::reorder reorder;
  };

  DnnlLinear(int threads, WeightLayout layout, dnnl::engine engine, dnnl::stream stream);

  Result<Operation*> operation(const Shape& shape);
  Operation make_operation(const Shape& shape);
  void make_backward_weights(const Shape& shape, Operation& operation);
  void make_with_weights(const Shape& shape, Operation& operation);
  void finish(Operation& operation, const dnnl::memory::desc& scratchpad);
  Result<void*> weights_for(const Operation& operation, const Tensor& weight, ParametersVersion version);
  Status run(Operation& operation);

  int threads_;
  bool library_layout_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unique_ptr<Memory> scratchpad_;
  std::map<Shape, Operation> operations_;
  std::map<const void*, std::vector<Packed>> packed_;
};

}  // namespace muster::device
