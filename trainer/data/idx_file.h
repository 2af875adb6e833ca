// Reads IDX files (the MNIST format) of unsigned bytes, gzip-compressed or plain, whatever the name says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/status.h"

namespace muster::data {

struct IdxArray {
  std::vector<std::int64_t> shape;  // 1 to 4 dimensions
  std::vector<std::uint8_t> values;

  std::int64_t rows() const { return shape.front(); }
};

// kNotFound and kIo for a file that cannot be read; kCorrupt, naming what is wrong, for one that is not IDX
// of unsigned bytes, is truncated, or goes on after its data. Never allocates more than the file has data
// for.
Result<IdxArray> read_idx_file(const std::filesystem::path& path);

}  // namespace muster::data
