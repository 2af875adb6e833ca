#include "common/checkpoint/tensor_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/checkpoint/read_only_file.h"

namespace muster::checkpoint {

// Stored bytes are little-endian and are copied as they are.
static_assert(std::endian::native == std::endian::little, "add a byte swap for big-endian machines");
static_assert(sizeof(float) == kElementBytes);

TensorReader::TensorReader(std::filesystem::path step_directory, Manifest manifest)
    : directory_(std::move(step_directory)), manifest_(std::move(manifest)) {
  for (const StoredFile& file : manifest_.files) {
    for (const StoredRows& rows : file.datasets) pieces_[rows.tensor].push_back({&file, &rows});
  }
  for (auto& [tensor, pieces] : pieces_) {
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.rows->row_begin < b.rows->row_begin; });
  }
}

Status TensorReader::read_piece(const Piece& piece, const PieceSink& sink) const {
  const std::filesystem::path path = directory_ / piece.file->name;
  const auto in = ReadOnlyFile::open(path);
  if (!in) {
    // The manifest promised the file, so its absence is damage.
    const ErrorCode code = in.error().code == ErrorCode::kNotFound ? ErrorCode::kCorrupt : in.error().code;
    return fail(code, "{}: dataset '{}': {}", path.string(), piece.rows->tensor, in.error().message);
  }
  MUSTER_ASSIGN(const std::string hash, in->read(piece.rows->offset, piece.rows->bytes, sink));
  if (hash != piece.rows->sha256) {
    return fail(ErrorCode::kCorrupt, "{}: dataset '{}' is damaged: its SHA-256 is {}, the manifest says {}",
                path.string(), piece.rows->tensor, hash, piece.rows->sha256);
  }
  return {};
}

Status TensorReader::read_all(std::string_view tensor, const BlockSink& sink) const {
  const auto pieces = pieces_.find(tensor);
  if (pieces == pieces_.end()) return {};  // no elements
  for (const Piece& piece : pieces->second) {
    MUSTER_TRY(read_piece(piece, [&](std::int64_t, std::span<const std::byte> block) { sink(block); }));
  }
  return {};
}

Status TensorReader::read_rows(std::string_view tensor, std::int64_t row_begin, std::int64_t row_end,
                               float* out) const {
  const TensorInfo* info = find_tensor(manifest_, tensor);
  if (info == nullptr) {
    return fail(ErrorCode::kNotFound, "{} has no tensor '{}'", directory_.string(), tensor);
  }
  if (row_begin < 0 || row_begin > row_end || row_end > info->shape.front()) {
    return fail(ErrorCode::kInvalidArgument, "rows [{}, {}) of tensor '{}' do not exist: it has {} rows",
                row_begin, row_end, tensor, info->shape.front());
  }
  const auto pieces = pieces_.find(tensor);
  if (pieces == pieces_.end()) return {};  // no elements
  const std::int64_t row_bytes = row_elements(info->shape) * kElementBytes;
  const std::int64_t wanted_begin = row_begin * row_bytes;
  const std::int64_t wanted_end = row_end * row_bytes;
  auto* const bytes_out = reinterpret_cast<std::byte*>(out);
  for (const Piece& piece : pieces->second) {
    const std::int64_t stored_begin = piece.rows->row_begin * row_bytes;
    if (stored_begin >= wanted_end || stored_begin + piece.rows->bytes <= wanted_begin) continue;
    // The whole dataset is read even for some of its rows: its hash covers all of it.
    MUSTER_TRY(read_piece(piece, [&](std::int64_t at, std::span<const std::byte> block) {
      const std::int64_t block_begin = stored_begin + at;
      const std::int64_t begin = std::max(block_begin, wanted_begin);
      const std::int64_t end = std::min(block_begin + static_cast<std::int64_t>(block.size()), wanted_end);
      if (begin < end) {
        std::memcpy(bytes_out + (begin - wanted_begin), block.data() + (begin - block_begin),
                    static_cast<std::size_t>(end - begin));
      }
    }));
  }
  return {};
}

}  // namespace muster::checkpoint
