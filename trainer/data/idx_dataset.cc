#include "trainer/data/idx_dataset.h"

#include <fmt/ranges.h>

#include <array>
#include <string_view>
#include <utility>

#include "common/file_ops.h"

#include "trainer/data/idx_file.h"
#include "trainer/data/memory_dataset.h"

namespace muster::data {
namespace {

using std::filesystem::path;

// The first of PREFIX-suffix and PREFIX-suffix.gz that is there.
Result<path> find_file(const path& directory, std::span<const std::string_view> prefixes,
                       std::string_view suffix) {
  std::vector<std::string> names;
  for (const std::string_view prefix : prefixes) {
    for (const std::string_view ending : {"", ".gz"}) {
      names.push_back(fmt::format("{}-{}{}", prefix, suffix, ending));
      MUSTER_ASSIGN(const bool is_there, file_exists(posix_file_ops(), directory / names.back()));
      if (is_there) return directory / names.back();
    }
  }
  return fail(ErrorCode::kNotFound, "{} has none of {}", directory.string(), fmt::join(names, ", "));
}

Result<MemorySamples> read_pair(const path& directory, std::span<const std::string_view> prefixes) {
  MUSTER_ASSIGN(const path images_path, find_file(directory, prefixes, "images-idx3-ubyte"));
  MUSTER_ASSIGN(const path labels_path, find_file(directory, prefixes, "labels-idx1-ubyte"));
  MUSTER_ASSIGN(IdxArray images, read_idx_file(images_path));
  MUSTER_ASSIGN(const IdxArray labels, read_idx_file(labels_path));
  if (images.shape.size() < 2) {
    return fail(ErrorCode::kCorrupt, "{}: 1 dimension; images have at least 2: how many, and their shape",
                images_path.string());
  }
  if (labels.shape.size() != 1) {
    return fail(ErrorCode::kCorrupt, "{}: {} dimensions; labels have 1", labels_path.string(),
                labels.shape.size());
  }
  MemorySamples samples;
  samples.inputs_name = images_path.string();
  samples.labels_name = labels_path.string();
  samples.shape = std::move(images.shape);
  samples.bytes = std::move(images.values);
  samples.labels.assign(labels.values.begin(), labels.values.end());
  return samples;
}

}  // namespace

Result<DatasetPair> load_idx_datasets(const path& directory) {
  constexpr std::array<std::string_view, 1> kTrain = {"train"};
  constexpr std::array<std::string_view, 2> kTest = {"t10k", "test"};
  MUSTER_TRY(require_data_directory(directory));
  MUSTER_ASSIGN(MemorySamples train, read_pair(directory, kTrain));
  MUSTER_ASSIGN(MemorySamples test, read_pair(directory, kTest));
  return pair_in_memory("idx", std::move(train), std::move(test));
}

}  // namespace muster::data
