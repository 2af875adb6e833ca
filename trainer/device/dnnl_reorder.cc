#include "trainer/device/dnnl_reorder.h"

#include <algorithm>
#include <new>

namespace muster::device {

Result<void*> DnnlWeights::in_layout(const Tensor& weight, const dnnl::memory::desc& own,
                                     const dnnl::memory::desc& wanted, ParametersVersion version) {
  if (own == wanted) return weight.data;
  std::vector<Copy>& copies = copies_[weight.data];
  auto copy = std::find_if(copies.begin(), copies.end(), [&](const Copy& candidate) {
    return candidate.own.get_desc() == own && candidate.reordered.get_desc() == wanted;
  });
  try {
    if (copy == copies.end()) {
      Copy made;
      made.own = dnnl::memory(own, engine_.engine(), weight.data);
      made.reordered = dnnl::memory(wanted, engine_.engine());
      made.reorder = dnnl::reorder(made.own, made.reordered);
      copies.push_back(std::move(made));
      copy = std::prev(copies.end());
    }
    if (version == 0 || copy->version != version) {
      copy->reorder.execute(engine_.stream(), copy->own, copy->reordered);
      copy->version = version;
    }
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::kInternal, "oneDNN cannot reorder a weight of {} elements: {}", weight.elements(),
                error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kUnavailable, "out of memory for a copy of a weight of {} elements",
                weight.elements());
  }
  return copy->reordered.get_data_handle();
}

DnnlGradient::DnnlGradient(DnnlEngine& engine, const dnnl::memory::desc& written,
                           const dnnl::memory::desc& plain)
    : plain_(plain, engine.engine(), DNNL_MEMORY_NONE), direct_(written == plain) {
  if (direct_) return;
  written_ = dnnl::memory(written, engine.engine());
  reorder_ = dnnl::reorder(written_, plain_);
}

void* DnnlGradient::target(const Tensor& gradient) {
  return direct_ ? gradient.data : written_.get_data_handle();
}

Status DnnlGradient::deliver(DnnlEngine& engine, const Tensor& gradient) {
  if (direct_) return {};
  try {
    plain_.set_data_handle(gradient.data);
    reorder_.execute(engine.stream(), written_, plain_);
    engine.stream().wait();
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::kInternal, "oneDNN cannot reorder a gradient of {} elements: {}",
                gradient.elements(), error.what());
  }
  return {};
}

}  // namespace muster::device
