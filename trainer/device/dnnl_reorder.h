// Weights in the layouts that oneDNN's primitives read, and gradients out of those they write. Used by the
// cpu device only.
#pragma once

#include <dnnl.hpp>
#include <map>
#include <memory>
#include <vector>

#include "common/status.h"
#include "trainer/device/dnnl_engine.h"
#include "trainer/device/tensor.h"

namespace muster::device {

// Copies of weights, kept as long as the ParametersVersion stays the same. Results do not depend on whether a
// copy was kept.
class DnnlWeights {
 public:
  explicit DnnlWeights(DnnlEngine& engine) : engine_(engine) {}

  // The weight, which lies in layout `own`, in layout `wanted`: itself, or a copy that is valid until the
  // next call for this weight with another version.
  Result<void*> in_layout(const Tensor& weight, const dnnl::memory::desc& own,
                          const dnnl::memory::desc& wanted, ParametersVersion version);

 private:
  struct Copy {
    ParametersVersion version = 0;
    dnnl::memory own;
    dnnl::memory reordered;
    dnnl::reorder reorder;
  };

  DnnlEngine& engine_;
  std::map<const void*, std::vector<Copy>> copies_;  // by the weight's address
};

// A gradient that a primitive writes in a layout of its own, on its way to a row-major tensor.
class DnnlGradient {
 public:
  DnnlGradient(DnnlEngine& engine, const dnnl::memory::desc& written, const dnnl::memory::desc& plain);

  // Where the primitive is to write for `gradient`; deliver() then fills it.
  void* target(const Tensor& gradient);
  Status deliver(DnnlEngine& engine, const Tensor& gradient);

 private:
  dnnl::memory written_;  // without memory if both layouts are the same
  dnnl::memory plain_;
  dnnl::reorder reorder_;
  bool direct_;
};

}  // namespace muster::device
