// Channels-last views of images that may be row-major: the tensor itself where both layouts are the same,
// else a transposed copy. For operations that compute on channels-last images only. Host memory, fp32, one
// thread.
#pragma once

#include <memory>

#include "common/status.h"
#include "trainer/device/arguments.h"
#include "trainer/device/tensor.h"

namespace muster::device {

class ChannelsLast {
 public:
  // Readable: holds the images.
  Result<Tensor> read(const Tensor& images);
  // Writable: what is written there reaches `images` with deliver().
  Result<Tensor> write(const Tensor& images);
  // written: what write(images) gave.
  static void deliver(const Tensor& written, const Tensor& images);

 private:
  std::unique_ptr<Memory> copy_;
};

}  // namespace muster::device
