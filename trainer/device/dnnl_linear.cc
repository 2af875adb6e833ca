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
                     library_layout_ ? "blocked" : "plain");
}

// ---- Making primitives ---------------------------------------------------------------------------------

Result<DnnlLinear::Operation*> DnnlLinear::operation(const Shape& shape) {
  const auto found = operations_.find(shape);
  if (found != operations_.end()) return &found->second;
  try {
    Operation made = make_operation(shape);
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

DnnlLinear::Operation DnnlLinear::make_operation(const Shape& shape) {
  Operation operation;
  if (shape.product == Product::kBackwardWeights) {
    make_backward_weights(shape, operation);
  } else {
    make_with_weights(shape, operation);
  }
  return operation;
}

void DnnlLinear::make_with_weights(const Shape& shape, Operation& operation) {
  const auto x = describe({shape.rows, shape.in}, Tag::nc);
  const auto y = describe({shape.rows, shape.out}, Tag::nc);
  const auto plain = describe({shape.out, shape.in}, Tag::oi);
  const auto weights = library_layout_ ? describe({shape.out, shape.in}, Tag::any) : plain;
  const auto bias = shape.bias ? describe({shape.out}, Tag::x) : dnnl::memory::desc();

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto forward_description =
      shape.bias ? dnnl::inner_product_forward::desc(dnnl::prop_kind::forward_training, x, weights, bias, y)
                 : dnnl::inner_product_forward::desc(dnnl::prop_kind::forward_training, x, weights, y);
  const dnnl::inner_product_forward::primitive_desc forward(forward_description, attributes, engine_);

  if (shape.product == Product::kBackwardData) {
    const dnnl::inner_product_backward_data::primitive_desc backward(
        dnnl::inner_product_backward_data::desc(x, weights, y), attributes, engine_, forward);
    operation.primitive = dnnl::inner_product_backward_data(backward);
    operation.weights_layout = backward.weights_desc();
    operation.input = unbound(y, engine_);
    operation.output = unbound(x, engine_);
    operation.arguments = {{DNNL_ARG_DIFF_DST, operation.input.get()},
                           {DNNL_ARG_DIFF_SRC, operation.output.get()}};
    finish(operation, backward.scratchpad_desc());
  } else {
    operation.primitive = dnnl::inner_product_forward(forward);
    operation.weights_layout = forward.weights_desc();
    operation.input = unbound(x, engine_);
    operation.output = unbound(y, engine_);
    operation.arguments = {{DNNL_ARG_SRC, operation.input.get()}, {DNNL_ARG_DST, operation.output.get()}};
    if (shape.bias) {
      operation.bias = unbound(bias, engine_);
      operation.arguments.push_back({DNNL_ARG_BIAS, operation.bias.get()});
    }
    finish(operation, forward.scratchpad_desc());
  }
  operation.packed = operation.weights_layout != plain;
  operation.weights = unbound(operation.weights_layout, engine_);
  operation.arguments.push_back({DNNL_ARG_WEIGHTS, operation.weights.get()});
}

void DnnlLinear::make_backward_weights(const Shape& shape, Operation& operation) {
  const auto x = describe({shape.rows, shape.in}, Tag::nc);
  const auto dy = describe({shape.rows, shape.out}, Tag::nc);
  const auto dweight = describe({shape.out, shape.in}, Tag::oi);  // gradients lie in plain buckets
  const auto dbias = shape.bias ? describe({shape.out}, Tag::x) : dnnl::memory::desc();

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::inner_product_forward::primitive_desc hint(
      dnnl::inner_product_forward::desc(dnnl::prop_kind::forward_training, x, dweight, dy), attributes,
      engine_);
  const auto description = shape.bias ? dnnl::inner_product_backward_weights::desc(x, dweight, dbias, dy)
                                      : dnnl::inner_product_backward_weights::desc(x, dweight, dy);
  const dnnl::inner_product_backward_weights::primitive_desc backward(description, attributes, engine_, hint);
  operation.primitive = dnnl::inner_product_backward_weights(backward);
  operation.weights_layout = dy;
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
  finish(operation, backward.scratchpad_desc());
}

void DnnlLinear::finish(Operation& operation, const dnnl::memory::desc& scratchpad) {
  operation.scratchpad = unbound(scratchpad, engine_);
  operation.arguments.push_back({DNNL_ARG_SCRATCHPAD, operation.scratchpad.get()});
}

// ---- Running them --------------------------------------------------------------------------------------

Result<void*> DnnlLinear::weights_for(const Operation& operation, const Tensor& weight,
                                      ParametersVersion version) {
  if (!operation.packed) return weight.data;
  auto& copies = packed_[weight.data];
  auto copy = std::find_if(copies.begin(), copies.end(), [&](const Packed& candidate) {
    return candidate.layout == operation.weights_layout;
  });
  try {
    if (copy == copies.end()) {
      const auto plain = describe({weight.shape[0], weight.shape[1]}, Tag::oi);
      Packed made;
      made.layout = operation.weights_layout;
      made.plain = dnnl::memory(plain, engine_, weight.data);
      made.packed = dnnl::memory(made.layout, engine_);
      made.reorder = dnnl::reorder(made.plain, made.packed);
      copies.push_back(std::move(made));
      copy = std::prev(copies.end());
    }
    if (version == 0 || copy->version != version) {
      copy->reorder.execute(stream_, copy->plain, copy->packed);
      copy->version = version;
    }
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::kInternal, "oneDNN cannot reorder a weight of [{}, {}]: {}", weight.shape[0],
                weight.shape[1], error.what());
  }
  return copy->packed.get_data_handle();
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
  MUSTER_ASSIGN(void* weights, weights_for(*op, weight, version));
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
  MUSTER_ASSIGN(void* weights, weights_for(*op, weight, version));
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
