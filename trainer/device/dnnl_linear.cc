#include "trainer/device/dnnl_linear.h"

#include <new>
#include <utility>

namespace muster::device {
namespace {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

// The smallest odd number of cache lines that holds a row. Rows a power of two apart fall into few of the
// cache's sets and push each other out.
std::int64_t padded_row(std::int64_t elements) {
  constexpr std::int64_t kLine = static_cast<std::int64_t>(kAlignmentBytes) / 4;
  return (((elements + kLine - 1) / kLine) | 1) * kLine;
}

}  // namespace

DnnlLinear::DnnlLinear(DnnlEngine& engine, WeightLayout layout)
    : engine_(engine),
      library_layout_(layout == WeightLayout::kLibrary ||
                      (layout == WeightLayout::kByIsa && engine.has_avx512())),
      weights_(engine) {}

std::string DnnlLinear::info() const { return library_layout_ ? "library weights" : "padded weights"; }

// ---- Making primitives ---------------------------------------------------------------------------------

Result<DnnlLinear::Prepared*> DnnlLinear::prepared(const Shape& shape) {
  const auto found = prepared_.find(shape);
  if (found != prepared_.end()) return &found->second;
  try {
    Prepared made = shape.product == Product::kForward        ? prepare_forward(shape)
                    : shape.product == Product::kBackwardData ? prepare_backward_data(shape)
                                                              : prepare_backward_weights(shape);
    return &prepared_.emplace(shape, std::move(made)).first->second;
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::kInternal,
                "oneDNN cannot make a linear layer for {} rows, {} inputs, {} outputs: {}", shape.rows,
                shape.in, shape.out, error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kUnavailable, "out of memory for a linear layer of {} rows, {} inputs, {} outputs",
                shape.rows, shape.in, shape.out);
  }
}

DnnlLinear::WeightCopy DnnlLinear::padded_copy(const Shape& shape) {
  return {describe({shape.out, shape.in}, Tag::ab),
          describe({shape.out, shape.in}, Dims{padded_row(shape.in), 1})};
}

DnnlLinear::Prepared DnnlLinear::prepare_forward(const Shape& shape) {
  const auto x = describe({shape.rows, shape.in}, Tag::ab);
  const auto y = describe({shape.rows, shape.out}, Tag::ab);
  const auto weights = library_layout_ ? describe({shape.in, shape.out}, Tag::any)
                                       : describe({shape.in, shape.out}, Dims{1, padded_row(shape.in)});
  const auto bias = describe({1, shape.out}, Tag::ab);
  const auto description =
      shape.bias ? dnnl::matmul::desc(x, weights, bias, y) : dnnl::matmul::desc(x, weights, y);
  const dnnl::matmul::primitive_desc product(description, user_scratchpad(), engine_.engine());

  Prepared made{
      .operation = DnnlOperation(dnnl::matmul(product), product.scratchpad_desc(), engine_.engine()),
      .copy = library_layout_
                  ? WeightCopy{describe({shape.in, shape.out}, Dims{1, shape.in}), product.weights_desc()}
                  : padded_copy(shape)};
  made.operation.add(DNNL_ARG_SRC, x);
  made.operation.add(DNNL_ARG_WEIGHTS, product.weights_desc());
  made.operation.add(DNNL_ARG_DST, y);
  if (shape.bias) made.operation.add(DNNL_ARG_BIAS, bias);
  return made;
}

DnnlLinear::Prepared DnnlLinear::prepare_backward_data(const Shape& shape) {
  const auto dy = describe({shape.rows, shape.out}, Tag::ab);
  const auto dx = describe({shape.rows, shape.in}, Tag::ab);
  const auto weights =
      library_layout_ ? describe({shape.out, shape.in}, Tag::any) : padded_copy(shape).wanted;
  const dnnl::matmul::primitive_desc product(dnnl::matmul::desc(dy, weights, dx), user_scratchpad(),
                                             engine_.engine());

  Prepared made{
      .operation = DnnlOperation(dnnl::matmul(product), product.scratchpad_desc(), engine_.engine()),
      .copy = {describe({shape.out, shape.in}, Tag::ab), product.weights_desc()}};
  made.operation.add(DNNL_ARG_SRC, dy);
  made.operation.add(DNNL_ARG_WEIGHTS, product.weights_desc());
  made.operation.add(DNNL_ARG_DST, dx);
  return made;
}

DnnlLinear::Prepared DnnlLinear::prepare_backward_weights(const Shape& shape) {
  const auto x = describe({shape.rows, shape.in}, Tag::nc);
  const auto dy = describe({shape.rows, shape.out}, Tag::nc);
  const auto dweight = describe({shape.out, shape.in}, Tag::oi);  // gradients lie in plain buckets
  const auto dbias = describe({shape.out}, Tag::x);
  const auto attributes = user_scratchpad();
  const dnnl::inner_product_forward::primitive_desc hint(
      dnnl::inner_product_forward::desc(dnnl::prop_kind::forward_training, x, dweight, dy), attributes,
      engine_.engine());
  const auto description = shape.bias ? dnnl::inner_product_backward_weights::desc(x, dweight, dbias, dy)
                                      : dnnl::inner_product_backward_weights::desc(x, dweight, dy);
  const dnnl::inner_product_backward_weights::primitive_desc product(description, attributes,
                                                                     engine_.engine(), hint);

  Prepared made{.operation = DnnlOperation(dnnl::inner_product_backward_weights(product),
                                           product.scratchpad_desc(), engine_.engine()),
                .copy = {}};
  made.operation.add(DNNL_ARG_SRC, x);
  made.operation.add(DNNL_ARG_DIFF_DST, dy);
  made.operation.add(DNNL_ARG_DIFF_WEIGHTS, dweight);
  if (shape.bias) made.operation.add(DNNL_ARG_DIFF_BIAS, dbias);
  return made;
}

// ---- Running them --------------------------------------------------------------------------------------

Status DnnlLinear::forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           ParametersVersion version, const Tensor& y) {
  const DnnlThreads threads(engine_.threads());
  MUSTER_ASSIGN(Prepared * product,
                prepared({Product::kForward, x.shape[0], x.shape[1], y.shape[1], bool(bias)}));
  MUSTER_ASSIGN(void* weights,
                weights_.in_layout(weight, product->copy.plain, product->copy.wanted, version));
  product->operation.bind(DNNL_ARG_SRC, x.data);
  product->operation.bind(DNNL_ARG_WEIGHTS, weights);
  product->operation.bind(DNNL_ARG_BIAS, bias.data);
  product->operation.bind(DNNL_ARG_DST, y.data);
  return engine_.run(product->operation);
}

Status DnnlLinear::backward_data(const Tensor& dy, const Tensor& weight, ParametersVersion version,
                                 const Tensor& dx) {
  const DnnlThreads threads(engine_.threads());
  MUSTER_ASSIGN(Prepared * product,
                prepared({Product::kBackwardData, dy.shape[0], dx.shape[1], dy.shape[1], false}));
  MUSTER_ASSIGN(void* weights,
                weights_.in_layout(weight, product->copy.plain, product->copy.wanted, version));
  product->operation.bind(DNNL_ARG_SRC, dy.data);
  product->operation.bind(DNNL_ARG_WEIGHTS, weights);
  product->operation.bind(DNNL_ARG_DST, dx.data);
  return engine_.run(product->operation);
}

Status DnnlLinear::backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dweight,
                                    const Tensor& dbias) {
  const DnnlThreads threads(engine_.threads());
  MUSTER_ASSIGN(Prepared * product,
                prepared({Product::kBackwardWeights, x.shape[0], x.shape[1], dy.shape[1], bool(dbias)}));
  product->operation.bind(DNNL_ARG_SRC, x.data);
  product->operation.bind(DNNL_ARG_DIFF_DST, dy.data);
  product->operation.bind(DNNL_ARG_DIFF_WEIGHTS, dweight.data);
  product->operation.bind(DNNL_ARG_DIFF_BIAS, dbias.data);
  return engine_.run(product->operation);
}

}  // namespace muster::device
