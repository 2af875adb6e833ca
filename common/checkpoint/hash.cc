#include "common/checkpoint/hash.h"

#include "common/sha256.h"

namespace muster::checkpoint {

bool is_in_canonical_hash(std::string_view tensor) {
  return tensor.starts_with("parameters/") || tensor.starts_with("optimizer/");
}

Result<std::string> canonical_hash(const TensorReader& checkpoint) {
  Sha256 hash;
  for (const TensorInfo& tensor : checkpoint.manifest().tensors) {  // sorted by name
    if (!is_in_canonical_hash(tensor.name)) continue;
    MUSTER_TRY(checkpoint.read_all(
        tensor.name, [&](std::span<const std::byte> block) { hash.update(block.data(), block.size()); }));
  }
  return hash.hex_digest();
}

}  // namespace muster::checkpoint
