#include "trainer/data/idx_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <string_view>
#include <utility>

#include "common/sha256.h"
#include "trainer/data/idx_file.h"

namespace muster::data {
namespace {

using std::filesystem::path;

struct LabelledFiles {
  path images_path;
  path labels_path;
  IdxArray images;
  IdxArray labels;
};

class IdxDataset final : public Dataset {
 public:
  IdxDataset(LabelledFiles files, std::int64_t classes, int largest_value)
      : images_(std::move(files.images.values)),
        labels_(std::move(files.labels.values)),
        sample_shape_(files.images.shape.begin() + 1, files.images.shape.end()),
        sample_elements_(static_cast<std::int64_t>(images_.size() / labels_.size())),
        classes_(classes) {
    for (std::size_t value = 0; value < scaled_.size(); ++value) {
      scaled_[value] = static_cast<float>(static_cast<double>(value) / largest_value);
    }
    Sha256 hash;
    const std::string header =
        fmt::format("idx [{}] {} {}\n", fmt::join(files.images.shape, ","), classes, largest_value);
    hash.update(header.data(), header.size());
    hash.update(images_.data(), images_.size());
    hash.update(labels_.data(), labels_.size());
    fingerprint_ = hash.hex_digest();
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const std::vector<std::int64_t>& sample_shape() const override { return sample_shape_; }
  std::int64_t classes() const override { return classes_; }
  const std::string& fingerprint() const override { return fingerprint_; }

  Status fetch(std::span<const std::int64_t> ids, float* inputs, std::int32_t* labels) const override {
    for (const std::int64_t id : ids) {
      assert(id >= 0 && id < size());
      const std::uint8_t* image = images_.data() + id * sample_elements_;
      for (std::int64_t i = 0; i < sample_elements_; ++i) *inputs++ = scaled_[image[i]];
      *labels++ = labels_[static_cast<std::size_t>(id)];
    }
    return {};
  }

 private:
  std::vector<std::uint8_t> images_;
  std::vector<std::uint8_t> labels_;
  std::vector<std::int64_t> sample_shape_;
  std::int64_t sample_elements_;
  std::int64_t classes_;
  std::string fingerprint_;
  std::array<float, 256> scaled_{};
};

// The first of PREFIX-suffix and PREFIX-suffix.gz that is there.
Result<path> find_file(const path& directory, std::span<const std::string_view> prefixes,
                       std::string_view suffix) {
  std::vector<std::string> names;
  for (const std::string_view prefix : prefixes) {
    for (const std::string_view ending : {"", ".gz"}) {
      names.push_back(fmt::format("{}-{}{}", prefix, suffix, ending));
      std::error_code ignored;
      if (std::filesystem::exists(directory / names.back(), ignored)) return directory / names.back();
    }
  }
  return fail(ErrorCode::kNotFound, "{} has none of {}", directory.string(), fmt::join(names, ", "));
}

Result<LabelledFiles> read_pair(const path& directory, std::span<const std::string_view> prefixes) {
  LabelledFiles files;
  MUSTER_ASSIGN(files.images_path, find_file(directory, prefixes, "images-idx3-ubyte"));
  MUSTER_ASSIGN(files.labels_path, find_file(directory, prefixes, "labels-idx1-ubyte"));
  MUSTER_ASSIGN(files.images, read_idx_file(files.images_path));
  MUSTER_ASSIGN(files.labels, read_idx_file(files.labels_path));
  if (files.images.shape.size() < 2) {
    return fail(ErrorCode::kCorrupt, "{}: 1 dimension; images have at least 2: how many, and their shape",
                files.images_path.string());
  }
  if (files.labels.shape.size() != 1) {
    return fail(ErrorCode::kCorrupt, "{}: {} dimensions; labels have 1", files.labels_path.string(),
                files.labels.shape.size());
  }
  if (files.images.rows() != files.labels.rows()) {
    return fail(ErrorCode::kCorrupt, "{} has {} images, but {} has {} labels", files.images_path.string(),
                files.images.rows(), files.labels_path.string(), files.labels.rows());
  }
  return files;
}

Status check_fit(const LabelledFiles& train, const LabelledFiles& test, std::int64_t classes) {
  if (!std::equal(train.images.shape.begin() + 1, train.images.shape.end(), test.images.shape.begin() + 1,
                  test.images.shape.end())) {
    return fail(ErrorCode::kCorrupt, "{} has images of [{}], but {} of [{}]", train.images_path.string(),
                fmt::join(train.images.shape.begin() + 1, train.images.shape.end(), ", "),
                test.images_path.string(),
                fmt::join(test.images.shape.begin() + 1, test.images.shape.end(), ", "));
  }
  const auto strange = std::find_if(test.labels.values.begin(), test.labels.values.end(),
                                    [classes](std::uint8_t label) { return label >= classes; });
  if (strange != test.labels.values.end()) {
    return fail(ErrorCode::kCorrupt,
                "{}: label {} of sample {} is out of range: the training labels are 0 to {}",
                test.labels_path.string(), *strange, strange - test.labels.values.begin(), classes - 1);
  }
  return {};
}

}  // namespace

Result<DatasetPair> load_idx_datasets(const path& directory) {
  constexpr std::array<std::string_view, 1> kTrain = {"train"};
  constexpr std::array<std::string_view, 2> kTest = {"t10k", "test"};
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored)) {
    return fail(ErrorCode::kNotFound, "data directory {} is not there", directory.string());
  }
  MUSTER_ASSIGN(LabelledFiles train, read_pair(directory, kTrain));
  MUSTER_ASSIGN(LabelledFiles test, read_pair(directory, kTest));
  const int largest = *std::max_element(train.images.values.begin(), train.images.values.end());
  if (largest == 0) {
    return fail(ErrorCode::kCorrupt, "{}: all values are 0, so there is nothing to learn from",
                train.images_path.string());
  }
  const std::int64_t classes =
      *std::max_element(train.labels.values.begin(), train.labels.values.end()) + std::int64_t{1};
  MUSTER_TRY(check_fit(train, test, classes));
  DatasetPair pair;
  pair.train = std::make_unique<IdxDataset>(std::move(train), classes, largest);
  pair.test = std::make_unique<IdxDataset>(std::move(test), classes, largest);
  return pair;
}

Result<DatasetPair> load_datasets(const std::string& name, const path& directory) {
  if (name == "idx") return load_idx_datasets(directory);
  return fail(ErrorCode::kInvalidArgument, "unknown dataset '{}'; allowed: idx", name);
}

}  // namespace muster::data
