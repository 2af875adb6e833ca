#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "trainer/export/parameter_file.h"

namespace muster::exporting {

static_assert(std::endian::native == std::endian::little, "values are written as they lie in memory");

std::string safetensors_bytes(const ParameterFile& file) {
  constexpr std::size_t kAlignment = 8;
  nlohmann::json header = nlohmann::json::object();
  for (const auto& [key, value] : file.metadata) header["__metadata__"][key] = value;
  std::size_t data_bytes = 0;
  for (const ExportedTensor& tensor : file.tensors) {
    const std::size_t end = data_bytes + tensor.values.size() * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {data_bytes, end}}};
    data_bytes = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');

  const std::uint64_t length = text.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  bytes.reserve(sizeof(length) + text.size() + data_bytes);
  bytes += text;
  for (const ExportedTensor& tensor : file.tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
  }
  return bytes;
}

}  // namespace muster::exporting
