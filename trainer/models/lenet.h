// LeNet-5's modern form for digits, after LeCun et al. 1998: convolution 5×5 to 32 channels, ReLU,
// max-pooling 2×2, convolution 5×5 to 64, ReLU, max-pooling 2×2, linear to 512, ReLU, dropout, linear to the
// classes. Convolutions are padded by 2, so that they keep the image's size. Parameters: conv1, conv2, fc1,
// fc2, each .weight and .bias.
#pragma once

#include <memory>

#include "trainer/models/model.h"

namespace muster::models {

// kInvalidArgument unless samples are images, [height, width] or [channels, height, width], of 4×4 pixels or
// more. The rest of the configuration has been checked by make_model().
Result<std::unique_ptr<Model>> make_lenet(const ModelConfig& config);

}  // namespace muster::models
