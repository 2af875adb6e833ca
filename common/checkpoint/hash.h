// The canonical hash of a checkpoint: what two runs that computed the same thing agree on, whatever the
// number of ranks that wrote it. SHA-256 over the tensors whose names begin with "parameters/" or
// "optimizer/", sorted by name as bytes, each one's elements in row-major order as little-endian fp32.
#pragma once

#include <string>
#include <string_view>

#include "common/checkpoint/tensor_reader.h"

namespace muster::checkpoint {

// Reads all of the data, and checks it against the manifest's hashes on the way.
Result<std::string> canonical_hash(const TensorReader& checkpoint);

bool is_in_canonical_hash(std::string_view tensor);

}  // namespace muster::checkpoint
