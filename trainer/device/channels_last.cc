#include "trainer/device/channels_last.h"

#include "trainer/device/cpu_kernels.h"
#include "trainer/device/host_memory.h"

namespace muster::device {

Result<Tensor> ChannelsLast::read(const Tensor& images) {
  MUSTER_ASSIGN(const Tensor view, write(images));
  if (view.data != images.data) {
    cpu::transpose(images.as<float>(), images.shape[0], images.shape[1], images.shape[2] * images.shape[3],
                   view.as<float>());
  }
  return view;
}

Result<Tensor> ChannelsLast::write(const Tensor& images) {
  Tensor view = images;
  view.layout = Layout::kChannelsLast;
  const bool same = images.layout == view.layout || images.shape[1] == 1;
  if (same) return view;
  if (!copy_ || copy_->bytes() < images.bytes()) {
    MUSTER_ASSIGN(copy_, allocate_host_memory(images.bytes()));
  }
  view.data = copy_->data();
  return view;
}

void ChannelsLast::deliver(const Tensor& written, const Tensor& images) {
  if (written.data == images.data) return;
  cpu::transpose(written.as<float>(), images.shape[0], images.shape[2] * images.shape[3], images.shape[1],
                 images.as<float>());
}

}  // namespace muster::device
