#include "trainer/device/dnnl_engine.h"

#include <omp.h>

#include <utility>

#include "trainer/device/host_memory.h"

namespace muster::device {
namespace {

Status check(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return {};
  return fail(ErrorCode::kInternal, "oneDNN: {} failed with status {} (dnnl_status_t)", what,
              static_cast<int>(status));
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

}  // namespace

dnnl::memory::desc describe(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}

dnnl::memory::desc describe(const dnnl::memory::dims& dims, const dnnl::memory::dims& strides) {
  return {dims, dnnl::memory::data_type::f32, strides};
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// ---- One operation -------------------------------------------------------------------------------------

DnnlOperation::DnnlOperation(dnnl::primitive primitive, dnnl::memory::desc scratchpad, dnnl::engine engine)
    : primitive_(std::move(primitive)), scratchpad_bytes_(scratchpad.get_size()), engine_(std::move(engine)) {
  add(DNNL_ARG_SCRATCHPAD, scratchpad);
}

void DnnlOperation::add(int argument, const dnnl::memory::desc& layout) {
  memories_.push_back(dnnl::memory(layout, engine_, DNNL_MEMORY_NONE));
  arguments_.push_back({argument, memories_.back().get()});
  addresses_.push_back(nullptr);
}

void DnnlOperation::bind(int argument, void* data) {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].arg == argument) addresses_[i] = data;
  }
}

// ---- The engine ----------------------------------------------------------------------------------------

Result<std::unique_ptr<DnnlEngine>> DnnlEngine::create(int threads) {
  try {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    return std::unique_ptr<DnnlEngine>(new DnnlEngine(threads, std::move(engine), std::move(stream)));
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::kUnavailable, "oneDNN cannot start on this CPU: {}", error.what());
  }
}

DnnlEngine::DnnlEngine(int threads, dnnl::engine engine, dnnl::stream stream)
    : threads_(threads), engine_(std::move(engine)), stream_(std::move(stream)) {}

bool DnnlEngine::has_avx512() const {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

std::string DnnlEngine::info() const {
  const dnnl_version_t* version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}, {}, {} thread{}", version->major, version->minor, version->patch,
                     isa_text(), threads_, threads_ == 1 ? "" : "s");
}

Status DnnlEngine::run(DnnlOperation& operation) {
  if (operation.scratchpad_bytes_ > 0 &&
      (!scratchpad_ || scratchpad_->bytes() < operation.scratchpad_bytes_)) {
    MUSTER_ASSIGN(scratchpad_, allocate_host_memory(operation.scratchpad_bytes_));
  }
  operation.bind(DNNL_ARG_SCRATCHPAD, scratchpad_ ? scratchpad_->data() : nullptr);
  for (std::size_t i = 0; i < operation.arguments_.size(); ++i) {
    MUSTER_TRY(check(dnnl_memory_set_data_handle(operation.arguments_[i].memory, operation.addresses_[i]),
                     "dnnl_memory_set_data_handle"));
  }
  MUSTER_TRY(check(
      dnnl_primitive_execute(operation.primitive_.get(), stream_.get(),
                             static_cast<int>(operation.arguments_.size()), operation.arguments_.data()),
      "dnnl_primitive_execute"));
  return check(dnnl_stream_wait(stream_.get()), "dnnl_stream_wait");
}

DnnlThreads::DnnlThreads(int threads) : before_(omp_get_max_threads()), changed_(before_ != threads) {
  if (changed_) omp_set_num_threads(threads);
}

DnnlThreads::~DnnlThreads() {
  if (changed_) omp_set_num_threads(before_);
}

}  // namespace muster::device
