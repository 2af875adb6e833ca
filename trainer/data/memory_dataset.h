// Labelled samples that lie in memory, whatever kind of file they came from: what all such data sets have to
// fulfil, and how their values become inputs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "trainer/data/dataset.h"

namespace muster::data {

inline constexpr std::int64_t kClassesMax = std::int64_t{1} << 20;

struct MemorySamples {
  std::string inputs_name;  // file (and dataset in it), for messages
  std::string labels_name;
  std::vector<std::int64_t> shape;  // of all inputs: samples, then the shape of one
  std::vector<std::uint8_t> bytes;  // the inputs, either as these …
  std::vector<float> floats;        // … or as these
  std::vector<std::int32_t> labels;
};

// The number of classes is the largest training label plus one. Bytes are scaled to [0, 1] by the largest
// byte of the training inputs; floats are taken as they are. `format` begins the fingerprint. kCorrupt,
// naming the file, if there are not as many labels as inputs, if shapes or kinds of training and test inputs
// differ, for a label out of range, for a float that is not finite, or if all training bytes are 0.
Result<DatasetPair> pair_in_memory(std::string_view format, MemorySamples train, MemorySamples test);

// kNotFound unless `directory` is one.
Status require_data_directory(const std::filesystem::path& directory);

}  // namespace muster::data
