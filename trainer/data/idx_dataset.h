// Labelled images in IDX files, as MNIST has them. A directory holds
//   train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz], and the same with t10k- or test- for train-.
// Values are scaled to [0, 1] by the largest value of the training images (255 for MNIST, 16 for 8×8 digits).
// The number of classes is the largest training label plus one.
#pragma once

#include <filesystem>

#include "common/status.h"
#include "trainer/data/dataset.h"

namespace muster::data {

// Errors name the file: missing (all names that were looked for), damaged, counts or shapes that do not fit
// together, test labels that training does not have.
Result<DatasetPair> load_idx_datasets(const std::filesystem::path& directory);

}  // namespace muster::data
