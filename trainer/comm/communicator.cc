#include "trainer/comm/communicator.h"

#include <algorithm>

namespace muster::comm {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kByte:
      return 1;
    case DType::kFloat32:
      return 4;
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

Result<std::vector<std::string>> all_gather_text(Communicator& communicator, std::string_view mine,
                                                 const CollectiveOptions& options) {
  const auto size = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  std::vector<std::uint64_t> lengths(size, 0);
  lengths[rank] = mine.size();
  MUSTER_TRY(
      communicator.all_gather(lengths.data(), size * sizeof(std::uint64_t), DType::kByte, options)->wait());
  // Equal parts, so that each rank's part begins where the collective expects it.
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string parts(size * longest, '\0');
  std::copy(mine.begin(), mine.end(), parts.begin() + static_cast<std::ptrdiff_t>(rank * longest));
  MUSTER_TRY(communicator.all_gather(parts.data(), parts.size(), DType::kByte, options)->wait());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < size; ++i) texts.push_back(parts.substr(i * longest, lengths[i]));
  return texts;
}

Result<std::string> broadcast_text(Communicator& communicator, std::string_view text, int root,
                                   const CollectiveOptions& options) {
  std::uint64_t length = text.size();
  MUSTER_TRY(communicator.broadcast(&length, sizeof(length), DType::kByte, root, options)->wait());
  std::string result(communicator.rank() == root ? text : std::string_view{});
  result.resize(length);
  MUSTER_TRY(communicator.broadcast(result.data(), length, DType::kByte, root, options)->wait());
  return result;
}

}  // namespace muster::comm
