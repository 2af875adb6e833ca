// Reads tensors of a checkpoint straight from its rank files, by the manifest's offsets. Every dataset that
// is touched is hashed as it is read, so bytes that are not what was written never come out as a success.
// Threads: the methods may be called from several threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "common/checkpoint/manifest.h"

namespace muster::checkpoint {

class TensorReader {
 public:
  TensorReader(std::filesystem::path step_directory, Manifest manifest);
  TensorReader(const TensorReader&) = delete;
  TensorReader& operator=(const TensorReader&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  const Manifest& manifest() const { return manifest_; }

  // Rows [row_begin, row_end) into `out`. kCorrupt, naming file and dataset, if the bytes do not match; what
  // is in `out` then is worthless.
  Status read_rows(std::string_view tensor, std::int64_t row_begin, std::int64_t row_end, float* out) const;

  // All bytes of the tensor in blocks, in order; after a failure the blocks handed out before are worthless.
  using BlockSink = std::function<void(std::span<const std::byte> block)>;
  Status read_all(std::string_view tensor, const BlockSink& sink) const;

 private:
  struct Piece {
    const StoredFile* file = nullptr;
    const StoredRows* rows = nullptr;
  };
  using PieceSink = std::function<void(std::int64_t at, std::span<const std::byte> block)>;
  Status read_piece(const Piece& piece, const PieceSink& sink) const;

  std::filesystem::path directory_;
  Manifest manifest_;
  std::map<std::string_view, std::vector<Piece>> pieces_;  // by tensor, in row order; views into manifest_
};

}  // namespace muster::checkpoint
