// The manifest of a checkpoint: which tensors there are, which rows of them lie where in which file, with
// hashes of everything, and the training state. It is JSON, so that checkpoints can be listed, verified and
// read without HDF5. docs/checkpoint_format.md is its specification.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster::checkpoint {

inline constexpr int kManifestVersion = 1;
inline constexpr std::string_view kElementType = "<f4";  // little-endian IEEE 754 binary32
inline constexpr std::int64_t kElementBytes = 4;

struct TensorInfo {
  std::string name;  // "parameters/layer0.weight"; also the path of the dataset in the HDF5 files
  std::vector<std::int64_t> shape;
};

// Rows [row_begin, row_end) of a tensor, row-major, contiguous at `offset` of a file. Never empty.
struct StoredRows {
  std::string tensor;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::vector<std::int64_t> shape;  // the tensor's, with row_end - row_begin in front
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::string sha256;
};

struct StoredFile {
  std::string name;  // a plain name within the checkpoint's directory
  std::int64_t bytes = 0;
  std::string sha256;
  std::vector<StoredRows> datasets;
};

struct Manifest {
  std::int64_t step = 0;
  std::int32_t generation = 0;
  int world_size = 1;
  std::string created;  // ISO 8601, UTC
  std::string code;     // what wrote it
  std::optional<double> metric;
  nlohmann::json state = nlohmann::json::object();
  std::vector<TensorInfo> tensors;  // sorted by name
  std::vector<StoredFile> files;
};

// Elements in one row; 1 for a vector. Valid shapes only (check_shape).
std::int64_t row_elements(const std::vector<std::int64_t>& shape);

// At least one dimension, none negative, and the size in bytes fits 63 bits.
Status check_shape(const std::vector<std::int64_t>& shape);

// Valid UTF-8 without control characters; parts separated by single slashes, none of them empty, "." or "..".
Status check_tensor_name(std::string_view name);

// Everything that a reader relies on: tensor names sorted, unique and usable as paths, every tensor covered
// exactly once by the files' rows, byte ranges inside their files and disjoint, plain and unique file names.
Status check_manifest(const Manifest& manifest);

// Fails with kInvalidArgument if the state holds what JSON cannot carry (NaN, infinities, bytes that are not
// UTF-8).
Result<std::string> manifest_to_text(const Manifest& manifest);

// Strict: kCorrupt, saying which field of which entry is wrong. Also runs check_manifest. Fields that it does
// not know are left out.
Result<Manifest> parse_manifest(std::string_view text);

// One file's entry on its own: what a rank tells rank 0 about the file it wrote.
nlohmann::json stored_file_to_json(const StoredFile& file);
Result<StoredFile> stored_file_from_json(const nlohmann::json& json);

const TensorInfo* find_tensor(const Manifest& manifest, std::string_view name);  // null: not there

// Bytes of all files.
std::int64_t total_bytes(const Manifest& manifest);

}  // namespace muster::checkpoint
