// What the cpu device's oneDNN primitives share: engine, stream, scratchpad, thread count; and how one is
// run. Used by the dnnl_*.cc files of this folder only; no other header knows oneDNN. One thread at a time.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "trainer/device/arguments.h"

namespace muster::device {

dnnl::memory::desc describe(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag);
dnnl::memory::desc describe(const dnnl::memory::dims& dims, const dnnl::memory::dims& strides);

// Attributes of every primitive: scratch memory comes from DnnlEngine.
dnnl::primitive_attr user_scratchpad();

// A primitive and its arguments, ready to run once each argument has its address. Move only.
class DnnlOperation {
 public:
  DnnlOperation(dnnl::primitive primitive, dnnl::memory::desc scratchpad, dnnl::engine engine);

  // argument: DNNL_ARG_….
  void add(int argument, const dnnl::memory::desc& layout);
  // An argument that the primitive does not have is ignored.
  void bind(int argument, void* data);

 private:
  friend class DnnlEngine;
  dnnl::primitive primitive_;
  std::size_t scratchpad_bytes_;
  dnnl::engine engine_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::vector<void*> addresses_;  // of the arguments
};

class DnnlEngine {
 public:
  // kUnavailable if oneDNN cannot start on this CPU.
  static Result<std::unique_ptr<DnnlEngine>> create(int threads);

  const dnnl::engine& engine() const { return engine_; }
  dnnl::stream& stream() { return stream_; }
  int threads() const { return threads_; }
  bool has_avx512() const;
  // "oneDNN 2.6.3, AVX2, 1 thread"
  std::string info() const;

  // Every argument must have been bound.
  Status run(DnnlOperation& operation);

 private:
  DnnlEngine(int threads, dnnl::engine engine, dnnl::stream stream);

  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unique_ptr<Memory> scratchpad_;
};

// Holds while primitives are made or run: oneDNN takes the thread count from OpenMP's setting of the calling
// thread, which others may have changed.
class DnnlThreads {
 public:
  explicit DnnlThreads(int threads);
  ~DnnlThreads();
  DnnlThreads(const DnnlThreads&) = delete;
  DnnlThreads& operator=(const DnnlThreads&) = delete;

 private:
  int before_;
  bool changed_;
};

}  // namespace muster::device
