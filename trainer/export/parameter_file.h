// A checkpoint's parameters as one plain file that other programs read. Builds the file in memory; pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"

namespace muster::exporting {

struct ExportedTensor {
  std::string name;  // "layer0.weight"
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // row-major
};

struct ParameterFile {
  std::vector<ExportedTensor> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;  // where they come from
};

// safetensors (https://github.com/huggingface/safetensors, "Format"): 8 bytes with the little-endian length
// of the header; the header, a JSON object of each tensor's dtype, shape and [begin, end) in the data, and
// "__metadata__"; the data, without gaps. The header ends in spaces so that the data begins on a multiple
// of 8.
std::string safetensors_bytes(const ParameterFile& file);

// HDF5: a contiguous little-endian fp32 dataset for each tensor, at its name; the metadata as text attributes
// of the root. Takes hdf5_lock() itself.
Result<std::string> hdf5_bytes(const ParameterFile& file);

}  // namespace muster::exporting
