// What makes a manifest consistent in itself: the rules that reading relies on.
#include <algorithm>
#include <map>
#include <set>

#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"

namespace muster::checkpoint {
namespace {

struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string where;
  bool operator<(const Extent& other) const { return begin < other.begin; }
};

Status check_file_name(std::string_view name) {
  const bool plain = !name.empty() && name.front() != '.' && name.size() <= 255 &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                              c == '.' || c == '_' || c == '-';
                     });
  if (!plain || name == kManifestFile || name == kMarkerFile) {
    return fail(ErrorCode::kCorrupt,
                "file name '{}' is not allowed: it must be a plain name of letters, digits, '.', '_' and '-' "
                "that does not start with '.', and neither {} nor {}",
                name, kManifestFile, kMarkerFile);
  }
  return {};
}

Status check_rows(const StoredFile& file, const StoredRows& rows, const TensorInfo* tensor) {
  if (tensor == nullptr) {
    return fail(ErrorCode::kCorrupt, "{}: dataset '{}' belongs to no tensor of the manifest", file.name,
                rows.tensor);
  }
  const std::int64_t row_bytes = row_elements(tensor->shape) * kElementBytes;
  if (rows.row_begin < 0 || rows.row_begin >= rows.row_end || rows.row_end > tensor->shape.front()) {
    return fail(ErrorCode::kCorrupt, "{}: dataset '{}' claims rows [{}, {}), but the tensor has {} rows",
                file.name, rows.tensor, rows.row_begin, rows.row_end, tensor->shape.front());
  }
  std::vector<std::int64_t> shape = tensor->shape;
  shape.front() = rows.row_end - rows.row_begin;
  if (rows.shape != shape) {
    return fail(ErrorCode::kCorrupt, "{}: the shape of dataset '{}' is not that of its tensor's rows",
                file.name, rows.tensor);
  }
  if (rows.bytes != (rows.row_end - rows.row_begin) * row_bytes || rows.bytes == 0) {
    return fail(ErrorCode::kCorrupt, "{}: dataset '{}' has {} bytes, but its rows [{}, {}) need {}",
                file.name, rows.tensor, rows.bytes, rows.row_begin, rows.row_end,
                (rows.row_end - rows.row_begin) * row_bytes);
  }
  if (rows.offset < 0 || rows.offset > file.bytes - rows.bytes) {
    return fail(ErrorCode::kCorrupt,
                "{}: dataset '{}' at offset {} with {} bytes lies outside the file of {} bytes", file.name,
                rows.tensor, rows.offset, rows.bytes, file.bytes);
  }
  if (!is_sha256_hex(rows.sha256)) {
    return fail(ErrorCode::kCorrupt, "{}: dataset '{}' has no valid sha256", file.name, rows.tensor);
  }
  return {};
}

// `extents` gets the row ranges by tensor.
Status check_file(const StoredFile& file, const Manifest& manifest,
                  std::map<std::string_view, std::vector<Extent>>& extents) {
  MUSTER_TRY(check_file_name(file.name));
  if (file.bytes < 0) return fail(ErrorCode::kCorrupt, "{}: negative size", file.name);
  if (!is_sha256_hex(file.sha256)) return fail(ErrorCode::kCorrupt, "{}: no valid sha256", file.name);
  std::vector<Extent> ranges;
  for (const StoredRows& rows : file.datasets) {
    MUSTER_TRY(check_rows(file, rows, find_tensor(manifest, rows.tensor)));
    ranges.push_back({rows.offset, rows.offset + rows.bytes, rows.tensor});
    extents[rows.tensor].push_back({rows.row_begin, rows.row_end, file.name});
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end) {
      return fail(ErrorCode::kCorrupt, "{}: datasets '{}' and '{}' overlap in the file", file.name,
                  ranges[i - 1].where, ranges[i].where);
    }
  }
  return {};
}

Status check_coverage(const TensorInfo& tensor, std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end());
  std::int64_t covered = 0;
  std::string before;
  for (const Extent& extent : extents) {
    if (extent.begin < covered) {
      return fail(ErrorCode::kCorrupt, "tensor '{}': row {} is stored twice, in {} and in {}", tensor.name,
                  extent.begin, before, extent.where);
    }
    if (extent.begin > covered) break;
    covered = extent.end;
    before = extent.where;
  }
  // A tensor without elements has no rows worth storing.
  if (covered < tensor.shape.front() && row_elements(tensor.shape) > 0) {
    return fail(ErrorCode::kCorrupt, "tensor '{}': row {} of {} is in no file", tensor.name, covered,
                tensor.shape.front());
  }
  return {};
}

Status check_tensors(const Manifest& manifest) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorInfo& tensor = manifest.tensors[i];
    MUSTER_TRY(check_tensor_name(tensor.name));
    if (auto status = check_shape(tensor.shape); !status) {
      return fail(ErrorCode::kCorrupt, "tensor '{}': {}", tensor.name, status.error().message);
    }
    if (i > 0 && manifest.tensors[i - 1].name >= tensor.name) {
      return fail(ErrorCode::kCorrupt, "tensor '{}' is listed twice or not in sorted order", tensor.name);
    }
    names.insert(tensor.name);
  }
  for (const std::string_view name : names) {
    for (std::size_t slash = name.find('/'); slash != std::string_view::npos;
         slash = name.find('/', slash + 1)) {
      if (names.contains(name.substr(0, slash))) {
        return fail(ErrorCode::kCorrupt, "tensor '{}' cannot lie inside tensor '{}'", name,
                    name.substr(0, slash));
      }
    }
  }
  return {};
}

// Length of the UTF-8 sequence at the start of `text`; 0 if there is none. Overlong forms, surrogates and
// code points above U+10FFFF are not UTF-8.
std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length == 0 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

Status check_tensor_name(std::string_view name) {
  const auto bad = [&](std::string_view why) {
    std::string shown(name.substr(0, 200));
    // The name may be the very reason why it cannot be shown as text.
    for (char& c : shown) {
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F) c = '?';
    }
    return fail(ErrorCode::kCorrupt, "tensor name '{}' is not allowed: {}", shown, why);
  };
  if (name.empty()) return bad("it is empty");
  if (name.size() > 1000) return bad("it is longer than 1000 bytes");
  for (std::string_view rest = name; !rest.empty();) {
    const std::size_t length = utf8_sequence(rest);
    if (length == 0) return bad("it is not UTF-8");
    if (static_cast<unsigned char>(rest.front()) < 0x20 || rest.front() == 0x7F) {
      return bad("it has a control character");
    }
    rest.remove_prefix(length);
  }
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return bad("it has an empty, '.' or '..' part");
    begin = end + 1;
  }
  const std::string_view top = name.substr(0, name.find('/'));
  if (top == "training_state" || top == "training_state_json") return bad("that group holds the state");
  return {};
}

Status check_shape(const std::vector<std::int64_t>& shape) {
  if (shape.empty() || shape.size() > 32) {
    return fail(ErrorCode::kInvalidArgument,
                "a shape has 1 to 32 dimensions, this one has {} (a scalar is {{1}})", shape.size());
  }
  std::int64_t bytes = kElementBytes;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return fail(ErrorCode::kInvalidArgument, "a dimension is negative: {}", dimension);
    // Zeros are left out of the product: each part of the shape must be small enough by itself.
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(dimension, 1), &bytes)) {
      return fail(ErrorCode::kInvalidArgument, "the shape is too large");
    }
  }
  return {};
}

std::int64_t row_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

Status check_manifest(const Manifest& manifest) {
  if (manifest.step < 0) return fail(ErrorCode::kCorrupt, "step is negative");
  if (manifest.generation < 0) return fail(ErrorCode::kCorrupt, "generation is negative");
  if (manifest.world_size < 1) return fail(ErrorCode::kCorrupt, "world_size is less than 1");
  if (!manifest.state.is_object()) return fail(ErrorCode::kCorrupt, "state is not an object");
  MUSTER_TRY(check_tensors(manifest));
  std::map<std::string_view, std::vector<Extent>> extents;
  std::set<std::string_view> names;
  for (const StoredFile& file : manifest.files) {
    MUSTER_TRY(check_file(file, manifest, extents));
    if (!names.insert(file.name).second) {
      return fail(ErrorCode::kCorrupt, "file {} is listed twice", file.name);
    }
  }
  for (const TensorInfo& tensor : manifest.tensors) {
    const auto found = extents.find(tensor.name);
    MUSTER_TRY(check_coverage(tensor, found == extents.end() ? std::vector<Extent>() : found->second));
  }
  return {};
}

const TensorInfo* find_tensor(const Manifest& manifest, std::string_view name) {
  const auto at =
      std::lower_bound(manifest.tensors.begin(), manifest.tensors.end(), name,
                       [](const TensorInfo& tensor, std::string_view n) { return tensor.name < n; });
  return at != manifest.tensors.end() && at->name == name ? &*at : nullptr;
}

std::int64_t total_bytes(const Manifest& manifest) {
  std::int64_t bytes = 0;
  for (const StoredFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

}  // namespace muster::checkpoint
