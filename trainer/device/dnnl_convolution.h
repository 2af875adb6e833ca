// 2-D convolution through oneDNN, on channels-last images. Used by the cpu device only.
//
// oneDNN computes about as fast on channels-last images as on its own blocked ones, and has a fast
// implementation for every shape that was tried (docs/decisions/0006 has the measurements); so images keep
// one layout between layers, and nothing is reordered on the way. Weights are read from reordered copies
// (DnnlWeights); their gradients come out row-major. Primitives are made once for each shape and kept.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "common/status.h"
#include "trainer/device/dnnl_engine.h"
#include "trainer/device/dnnl_reorder.h"
#include "trainer/device/tensor.h"

namespace muster::device {

class DnnlConvolution {
 public:
  // `engine` must outlive it.
  explicit DnnlConvolution(DnnlEngine& engine) : engine_(engine), weights_(engine) {}

  // x, y and their gradients are channels-last; at least one sample. bias and dbias may be no tensor.
  Status forward(const Window2d& window, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 ParametersVersion version, const Tensor& y);
  Status backward_data(const Window2d& window, const Tensor& dy, const Tensor& weight,
                       ParametersVersion version, const Tensor& dx);
  Status backward_weights(const Window2d& window, const Tensor& x, const Tensor& dy, const Tensor& dweight,
                          const Tensor& dbias);

 private:
  enum class Pass : std::uint8_t { kForward, kBackwardData, kBackwardWeights };

  // Pass, bias or not, stride and padding, then the shapes of x, weight and y.
  using Key = std::array<std::int64_t, 18>;
  struct Geometry;

  struct Prepared {
    DnnlOperation operation;
    dnnl::memory::desc plain_weights;
    dnnl::memory::desc wanted_weights;
    std::optional<DnnlGradient> gradient;  // in kBackwardWeights
  };

  Result<Prepared*> prepared(Pass pass, const Window2d& window, const Tensor& x, const Tensor& weight,
                             const Tensor& y, bool bias);
  // These throw dnnl::error.
  Prepared prepare_forward(const Geometry& geometry);
  Prepared prepare_backward_data(const Geometry& geometry);
  Prepared prepare_backward_weights(const Geometry& geometry);

  DnnlEngine& engine_;
  DnnlWeights weights_;
  std::map<Key, Prepared> prepared_;
};

}  // namespace muster::device
