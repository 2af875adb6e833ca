#include "trainer/device/dnnl_convolution.h"

#include <algorithm>
#include <new>
#include <utility>

namespace muster::device {
namespace {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

Dims dims_of(const Tensor& tensor) { return {tensor.shape.begin(), tensor.shape.begin() + tensor.rank}; }
Dims dims_of(const Extent2d& extent) { return {extent.height, extent.width}; }

}  // namespace

struct DnnlConvolution::Geometry {
  dnnl::memory::desc x;
  dnnl::memory::desc y;
  dnnl::memory::desc weights;  // any layout
  dnnl::memory::desc plain_weights;
  dnnl::memory::desc bias;  // zero memory if there is none
  Dims stride;
  Dims padding;

  Geometry(const Window2d& window, const Tensor& x_tensor, const Tensor& weight, const Tensor& y_tensor,
           bool has_bias)
      : x(describe(dims_of(x_tensor), Tag::nhwc)),
        y(describe(dims_of(y_tensor), Tag::nhwc)),
        weights(describe(dims_of(weight), Tag::any)),
        plain_weights(describe(dims_of(weight), Tag::oihw)),
        stride(dims_of(window.stride)),
        padding(dims_of(window.padding)) {
    if (has_bias) bias = describe({y_tensor.shape[1]}, Tag::x);
  }

  dnnl::convolution_forward::primitive_desc forward(const dnnl::engine& engine) const {
    const dnnl::convolution_forward::desc description(dnnl::prop_kind::forward_training, kAlgorithm, x,
                                                      weights, bias, y, stride, padding, padding);
    return {description, user_scratchpad(), engine};
  }
};

// ---- Making primitives ---------------------------------------------------------------------------------

Result<DnnlConvolution::Prepared*> DnnlConvolution::prepared(Pass pass, const Window2d& window,
                                                             const Tensor& x, const Tensor& weight,
                                                             const Tensor& y, bool bias) {
  Key key = {static_cast<std::int64_t>(pass), bias ? 1 : 0,        window.stride.height, window.stride.width,
             window.padding.height,           window.padding.width};
  auto next = key.begin() + 6;
  for (const Tensor* tensor : {&x, &weight, &y}) next = std::copy_n(tensor->shape.begin(), 4, next);
  const auto found = prepared_.find(key);
  if (found != prepared_.end()) return &found->second;
  const auto shapes = [&] {
    return fmt::format("images [{}], weights [{}]", fmt::join(dims_of(x), ", "),
                       fmt::join(dims_of(weight), ", "));
  };
  try {
    const Geometry geometry(window, x, weight, y, bias);
    Prepared made = pass == Pass::kForward        ? prepare_forward(geometry)
                    : pass == Pass::kBackwardData ? prepare_backward_data(geometry)
                                                  : prepare_backward_weights(geometry);
    return &prepared_.emplace(key, std::move(made)).first->second;
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::kInternal, "oneDNN cannot make a convolution for {}: {}", shapes(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kUnavailable, "out of memory for a convolution for {}", shapes());
  }
}

DnnlConvolution::Prepared DnnlConvolution::prepare_forward(const Geometry& geometry) {
  const auto product = geometry.forward(engine_.engine());
  Prepared made{.operation = DnnlOperation(dnnl::convolution_forward(product), product.scratchpad_desc(),
                                           engine_.engine()),
                .plain_weights = geometry.plain_weights,
                .wanted_weights = product.weights_desc(),
                .gradient = {}};
  made.operation.add(DNNL_ARG_SRC, geometry.x);
  made.operation.add(DNNL_ARG_WEIGHTS, made.wanted_weights);
  made.operation.add(DNNL_ARG_DST, geometry.y);
  if (!geometry.bias.is_zero()) made.operation.add(DNNL_ARG_BIAS, geometry.bias);
  return made;
}

DnnlConvolution::Prepared DnnlConvolution::prepare_backward_data(const Geometry& geometry) {
  const dnnl::convolution_backward_data::desc description(kAlgorithm, geometry.x, geometry.weights,
                                                          geometry.y, geometry.stride, geometry.padding,
                                                          geometry.padding);
  const dnnl::convolution_backward_data::primitive_desc product(
      description, user_scratchpad(), engine_.engine(), geometry.forward(engine_.engine()));
  Prepared made{.operation = DnnlOperation(dnnl::convolution_backward_data(product),
                                           product.scratchpad_desc(), engine_.engine()),
                .plain_weights = geometry.plain_weights,
                .wanted_weights = product.weights_desc(),
                .gradient = {}};
  made.operation.add(DNNL_ARG_DIFF_DST, geometry.y);
  made.operation.add(DNNL_ARG_WEIGHTS, made.wanted_weights);
  made.operation.add(DNNL_ARG_DIFF_SRC, geometry.x);
  return made;
}

DnnlConvolution::Prepared DnnlConvolution::prepare_backward_weights(const Geometry& geometry) {
  const dnnl::convolution_backward_weights::desc description(kAlgorithm, geometry.x, geometry.weights,
                                                             geometry.bias, geometry.y, geometry.stride,
                                                             geometry.padding, geometry.padding);
  const dnnl::convolution_backward_weights::primitive_desc product(
      description, user_scratchpad(), engine_.engine(), geometry.forward(engine_.engine()));
  Prepared made{.operation = DnnlOperation(dnnl::convolution_backward_weights(product),
                                           product.scratchpad_desc(), engine_.engine()),
                .plain_weights = geometry.plain_weights,
                .wanted_weights = {},
                .gradient = DnnlGradient(engine_, product.diff_weights_desc(), geometry.plain_weights)};
  made.operation.add(DNNL_ARG_SRC, geometry.x);
  made.operation.add(DNNL_ARG_DIFF_DST, geometry.y);
  made.operation.add(DNNL_ARG_DIFF_WEIGHTS, product.diff_weights_desc());
  if (!geometry.bias.is_zero()) made.operation.add(DNNL_ARG_DIFF_BIAS, geometry.bias);
  return made;
}

// ---- Running them --------------------------------------------------------------------------------------

Status DnnlConvolution::forward(const Window2d& window, const Tensor& x, const Tensor& weight,
                                const Tensor& bias, ParametersVersion version, const Tensor& y) {
  const DnnlThreads threads(engine_.threads());
  MUSTER_ASSIGN(Prepared * product, prepared(Pass::kForward, window, x, weight, y, bool(bias)));
  MUSTER_ASSIGN(void* weights,
                weights_.in_layout(weight, product->plain_weights, product->wanted_weights, version));
  product->operation.bind(DNNL_ARG_SRC, x.data);
  product->operation.bind(DNNL_ARG_WEIGHTS, weights);
  product->operation.bind(DNNL_ARG_BIAS, bias.data);
  product->operation.bind(DNNL_ARG_DST, y.data);
  return engine_.run(product->operation);
}

Status DnnlConvolution::backward_data(const Window2d& window, const Tensor& dy, const Tensor& weight,
                                      ParametersVersion version, const Tensor& dx) {
  const DnnlThreads threads(engine_.threads());
  MUSTER_ASSIGN(Prepared * product, prepared(Pass::kBackwardData, window, dx, weight, dy, false));
  MUSTER_ASSIGN(void* weights,
                weights_.in_layout(weight, product->plain_weights, product->wanted_weights, version));
  product->operation.bind(DNNL_ARG_DIFF_DST, dy.data);
  product->operation.bind(DNNL_ARG_WEIGHTS, weights);
  product->operation.bind(DNNL_ARG_DIFF_SRC, dx.data);
  return engine_.run(product->operation);
}

Status DnnlConvolution::backward_weights(const Window2d& window, const Tensor& x, const Tensor& dy,
                                         const Tensor& dweight, const Tensor& dbias) {
  const DnnlThreads threads(engine_.threads());
  MUSTER_ASSIGN(Prepared * product, prepared(Pass::kBackwardWeights, window, x, dweight, dy, bool(dbias)));
  product->operation.bind(DNNL_ARG_SRC, x.data);
  product->operation.bind(DNNL_ARG_DIFF_DST, dy.data);
  product->operation.bind(DNNL_ARG_DIFF_WEIGHTS, product->gradient->target(dweight));
  product->operation.bind(DNNL_ARG_DIFF_BIAS, dbias.data);
  MUSTER_TRY(engine_.run(product->operation));
  return product->gradient->deliver(engine_, dweight);
}

}  // namespace muster::device
