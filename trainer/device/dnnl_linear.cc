#include "trainer/device/dnnl_linear.h"

#include <omp.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "trainer/device/host_memory.h"

namespace muster::device {
namespace {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

dnnl::memory::desc describe(const Dims& dims, Tag tag) { return {dims, dnnl::memory::data_type::f32, tag}; }

dnnl::memory::desc describe(const Dims& dims, const Dims& strides) {
  return {dims, dnnl::memory::data_type::f32, strides};
}

// The smallest odd number of cache lines that holds a row. Rows a power of two apart fall into few of the
// cache's sets and push each other out.
std::int64_t padded_row(std::int64_t elements) {
  constexpr std::int64_t kLine = static_cast<std::int64_t>(kAlignmentBytes) / 4;
  return (((elements + kLine - 1) / kLine) | 1) * kLine;
}

dnnl::memory unbound(const dnnl::memory::desc& layout, const dnnl::engine& engine) {
  return {layout, engine, DNNL_MEMORY_NONE};
}

Status check(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return {};
  return fail(ErrorCode::kInternal, "oneDNN: {} failed with status {} (dnnl_status_t)", what,
              static_cast<int>(status));
}

Status bind(const dnnl::memory& memory, void* data) {
  return check(dnnl_memory_set_data_handle(memory.get(), data), "dnnl_memory_set_data_handle");
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

const char* isa_text() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::all:
      return "no limit";
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx2_vnni:
      return "AVX2-VNNI";
    case dnnl::cpu_isa::avx512_mic:
    case dnnl::cpu_isa::avx512_mic_4ops:
      return "AVX512-MIC";
    case dnnl::cpu_isa::avx512_core:
      return "AVX512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX512-VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX512-BF16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "AMX";
  }
  return "unknown instruction set";
}

bool has_avx512_core() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

// oneDNN takes the thread count from OpenMP's setting of the calling thread, which others may have changed.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()), changed_(before_ != threads) {
    if (changed_) omp_set_num_threads(threads);
  }
  ~ThreadCount() {
    if (changed_) omp_set_num_threads(before_);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
  bool changed_;
};

}  // namespace

Result<std::unique_ptr<DnnlLinear>> DnnlLinear::create(int threads, WeightLayout layout) {
  try {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    return std::unique_ptr<DnnlLinear>(new DnnlLinear(threads, layout, std::move(engine), std::move(stream)));
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::kUnavailable, "oneDNN cannot start on this CPU: {}", error.what());
  }
}

DnnlLinear::DnnlLinear(int threads, WeightLayout layout, dnnl::engine engine, dnnl::stream stream)
    : threads_(threads),
      library_layout_(layout == WeightLayout::kLibrary ||
                      (layout == WeightLayout::kByIsa && has_avx512_core())),
      engine_(std::move(engine)),
      stream_(std::move(stream)) {}

std::string DnnlLinear::info() const {
  const dnnl_version_t* version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}, {}, {} thread{}, {} weights", version->major, version->minor,
                     version->patch, isa_text(), threads_, threads_ == 1 ? "" : "s",
                     library_layout_ ? "library" : "padded");
}

// ---- Making primitives ---------------------------------------------------------------------------------

Result<DnnlLinear::Operation*> DnnlLinear::operation(const Shape& shape) {
  const auto found = operations_.find(shape);
  if (found != operations_.end()) return &found->second;
  try {
    Operation made = shape.product == Product::kForward        ? make_forward(shape)
                     : shape.product == Product::kBackwardData ? make_backward_data(shape)
                                                               : make_backward_weights(shape);
    const std::size_t scratchpad_bytes = made.scratchpad.get_desc().get_size();
    if (!scratchpad_ || scratchpad_->bytes() < scratchpad_bytes) {
      MUSTER_ASSIGN(scratchpad_, allocate_host_memory(scratchpad_bytes));
    }
    return &operations_.emplace(shape, std::move(made)).first->second;
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::kInternal,
                "oneDNN cannot make a linear layer for {} rows, {} inputs, {} outputs: {}", shape.rows,
                shape.in, shape.out, error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kUnavailable, "out of memory for a linear layer of {} rows, {} inputs, {} outputs",
                shape.rows, shape.in, shape.out);
  }
}

dnnl::memory::desc DnnlLinear::wanted_weights(std::int64_t rows, std::int64_t columns) const {
  if (library_layout_) return describe({rows, columns}, Tag::any);
  return describe({rows, columns}, Dims{padded_row(columns), 1});
}

DnnlLinear::Operation DnnlLinear::make_forward(const Shape& shape) {
  const auto x = describe({shape.rows, shape.in}, Tag::ab);
  const auto y = describe({shape.rows, shape.out}, Tag::ab);
  const auto weights = wanted_weights(shape.in, shape.out);
  const auto bias = describe({1, shape.out}, Tag::ab);
  const auto description =
      shape.bias ? dnnl::matmul::desc(x, weights, bias, y) : dnnl::matmul::desc(x, weights, y);
  const dnnl::matmul::primitive_desc product(description, user_scratchpad(), engine_);

  Operation operation;
  operation.primitive = dnnl::matmul(product);
  operation.plain_weights = describe({shape.in, shape.out}, Dims{1, shape.in});  // [out, in], transposed
  operation.wanted_weights = product.weights_desc();
  operation.input = unbound(x, engine_);
  operation.weights = unbound(operation.wanted_weights, engine_);
  operation.output = unbound(y, engine_);
  operation.arguments = {{DNNL_ARG_SRC, operation.input.get()},
                         {DNNL_ARG_WEIGHTS, operation.weights.get()},
                         {DNNL_ARG_DST, operation.output.get()}};
  if (shape.bias) {
    operation.bias = unbound(bias, engine_);
    operation.arguments.push_back({DNNL_ARG_BIAS, operation.bias.get()});
  }
  finish(operation, product.scratchpad_desc());
  return operation;
}

DnnlLinear::Operation DnnlLinear::make_backward_data(const Shape& shape) {
  const auto dy = describe({shape.rows, shape.out}, Tag::ab);
  const auto dx = describe({shape.rows, shape.in}, Tag::ab);
  const dnnl::matmul::primitive_desc product(dnnl::matmul::desc(dy, wanted_weights(shape.out, shape.in), dx),
                                             user_scratchpad(), engine_);

  Operation operation;
  operation.primitive = dnnl::matmul(product);
  operation.plain_weights = describe({shape.out, shape.in}, Tag::ab);
  operation.wanted_weights = product.weights_desc();
  operation.input = unbound(dy, engine_);
  operation.weights = unbound(operation.wanted_weights, engine_);
  operation.output = unbound(dx, engine_);
  operation.arguments = {{DNNL_ARG_SRC, operation.input.get()},
                         {DNNL_ARG_WEIGHTS, operation.weights.get()},
                         {DNNL_ARG_DST, operation.output.get()}};
  finish(operation, product.scratchpad_desc());
  return operation;
}

DnnlLinear::Operation DnnlLinear::make_backward_weights(const Shape& shape) {
  const auto x = describe({shape.rows, shape.in}, Tag::nc);
  const auto dy = describe({shape.rows, shape.out}, Tag::nc);
  const auto dweight = describe({shape.out, shape.in}, Tag::oi);  // gradients lie in plain buckets
  const auto dbias = describe({shape.out}, Tag::x);
  const auto attributes = user_scratchpad();
  const dnnl::inner_product_forward::primitive_desc hint(
      dnnl::inner_product_forward::desc(dnnl::prop_kind::forward_training, x, dweight, dy), attributes,
      engine_);
  const auto description = shape.bias ? dnnl::inner_product_backward_weights::desc(x, dweight, dbias, dy)
                                      : dnnl::inner_product_backward_weights::desc(x, dweight, dy);
  const dnnl::inner_product_backward_weights::primitive_desc product(description, attributes, engine_, hint);

  Operation operation;
  operation.primitive = dnnl::inner_product_backward_weights(product);
  operation.input = unbound(x, engine_);
  operation.weights = unbound(dy, engine_);
  operation.output = unbound(dweight, engine_);
  operation.arguments = {{DNNL_ARG_SRC, operation.input.get()},
                         {DNNL_ARG_DIFF_DST, operation.weights.get()},
                         {DNNL_ARG_DIFF_WEIGHTS, operation.output.get()}};
  if (shape.bias) {
    operation.bias = unbound(dbias, engine_);
    operation.arguments.push_back({DNNL_ARG_DIFF_BIAS, operation.bias.get()});
  }
  finish(operation, product.scratchpad_desc());
  return operation;
}

void DnnlLinear::finish(Operation& operation, const dnnl::memory::desc& scratchpad) {
  operation.scratchpad = unbound(scratchpad, engine_);
  operation.arguments.push_back({DNNL_ARG_SCRATCHPAD, operation.scratchpad.get()});
}

// ---- Running them --------------------------------------------------------------------------------------

DnnlLinear::Copy DnnlLinear::make_copy(Product product, const Operation& operation, const Tensor& weight) {
  Copy copy;
  copy.product = product;
  copy.layout = operation.wanted_weights;
  copy.plain = dnnl::memory(operation.plain_weights, engine_, weight.data);
  copy.reordered = dnnl::memory(copy.layout, engine_);
  copy.reorder = dnnl::reorder(copy.plain, copy.reordered);
  return copy;
}

Result<void*> DnnlLinear::weights_for(Product product, const Operation& operation, const Tensor& weight,
                                      ParametersVersion version) {
  if (operation.wanted_weights == operation.plain_weights) return weight.data;
  std::vector<Copy>& copies = copies_[weight.data];
  auto copy = std::find_if(copies.begin(), copies.end(), [&](const Copy& candidate) {
    return candidate.product == product && candidate.layout == operation.wanted_weights;
  });
  try {
    if (copy == copies.end()) {
      copies.push_back(make_copy(product, operation, weight));
      copy = std::prev(copies.end());
    }
    if (version == 0 || copy->version != version) {
      copy->reorder.execute(stream_, copy->plain, copy->reordered);
      copy->version = version;
    }
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::kInternal, "oneDNN cannot reorder a weight of [{}, {}]: {}", weight.shape[0],
                weight.shape[1], error.what());
  }
  return copy->reordered.get_data_handle();
}

Status DnnlLinear::run(Operation& operation) {
  MUSTER_TRY(bind(operation.scratchpad, scratchpad_ ? scratchpad_->data() : nullptr));
  MUSTER_TRY(
      check(dnnl_primitive_execute(operation.primitive.get(), stream_.get(),
                                   static_cast<int>(operation.arguments.size()), operation.arguments.data()),
            "dnnl_primitive_execute"));
  return check(dnnl_stream_wait(stream_.get()), "dnnl_stream_wait");
}

Status DnnlLinear::forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           ParametersVersion version, const Tensor& y) {
  const ThreadCount thread_count(threads_);
  MUSTER_ASSIGN(Operation * op,
                operation({Product::kForward, x.shape[0], x.shape[1], y.shape[1], bool(bias)}));
  MUSTER_ASSIGN(void* weights, weights_for(Product::kForward, *op, weight, version));
  MUSTER_TRY(bind(op->input, x.data));
  MUSTER_TRY(bind(op->weights, weights));
  if (bias) MUSTER_TRY(bind(op->bias, bias.data));
  MUSTER_TRY(bind(op->output, y.data));
  return run(*op);
}

Status DnnlLinear::backward_data(const Tensor& dy, const Tensor& weight, ParametersVersion version,
                                 const Tensor& dx) {
  const ThreadCount thread_count(threads_);
  MUSTER_ASSIGN(Operation * op,
                operation({Product::kBackwardData, dy.shape[0], dx.shape[1], dy.shape[1], false}));
  MUSTER_ASSIGN(void* weights, weights_for(Product::kBackwardData, *op, weight, version));
  MUSTER_TRY(bind(op->input, dy.data));
  MUSTER_TRY(bind(op->weights, weights));
  MUSTER_TRY(bind(op->output, dx.data));
  return run(*op);
}

Status DnnlLinear::backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dweight,
                                    const Tensor& dbias) {
  const ThreadCount thread_count(threads_);
  MUSTER_ASSIGN(Operation * op,
                operation({Product::kBackwardWeights, x.shape[0], x.shape[1], dy.shape[1], bool(dbias)}));
  MUSTER_TRY(bind(op->input, x.data));
  MUSTER_TRY(bind(op->weights, dy.data));
  if (dbias) MUSTER_TRY(bind(op->bias, dbias.data));
  MUSTER_TRY(bind(op->output, dweight.data));
  return run(*op);
}

}  // namespace muster::device
