#include "trainer/data/memory_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <span>
#include <utility>

#include "common/file_ops.h"

#include "common/sha256.h"

namespace muster::data {
namespace {

class MemoryDataset final : public Dataset {
 public:
  MemoryDataset(MemorySamples samples, std::int64_t classes, int largest_byte, std::string fingerprint)
      : bytes_(std::move(samples.bytes)),
        floats_(std::move(samples.floats)),
        labels_(std::move(samples.labels)),
        sample_shape_(samples.shape.begin() + 1, samples.shape.end()),
        sample_elements_(static_cast<std::int64_t>(std::max(bytes_.size(), floats_.size()) / labels_.size())),
        classes_(classes),
        fingerprint_(std::move(fingerprint)) {
    for (std::size_t value = 0; value < scaled_.size(); ++value) {
      scaled_[value] = static_cast<float>(static_cast<double>(value) / std::max(largest_byte, 1));
    }
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const std::vector<std::int64_t>& sample_shape() const override { return sample_shape_; }
  std::int64_t classes() const override { return classes_; }
  const std::string& fingerprint() const override { return fingerprint_; }

  Status fetch(std::span<const std::int64_t> ids, float* inputs, std::int32_t* labels) const override {
    for (const std::int64_t id : ids) {
      assert(id >= 0 && id < size());
      if (floats_.empty()) {
        const std::uint8_t* sample = bytes_.data() + id * sample_elements_;
        for (std::int64_t i = 0; i < sample_elements_; ++i) inputs[i] = scaled_[sample[i]];
      } else {
        std::copy_n(floats_.data() + id * sample_elements_, sample_elements_, inputs);
      }
      inputs += sample_elements_;
      *labels++ = labels_[static_cast<std::size_t>(id)];
    }
    return {};
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::vector<float> floats_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int64_t> sample_shape_;
  std::int64_t sample_elements_;
  std::int64_t classes_;
  std::string fingerprint_;
  std::array<float, 256> scaled_{};
};

std::string shape_text(const MemorySamples& samples) {
  return fmt::format("[{}]", fmt::join(samples.shape.begin() + 1, samples.shape.end(), ", "));
}

Status check_labels(const MemorySamples& samples, std::int64_t classes, std::string_view why) {
  if (samples.shape.front() != static_cast<std::int64_t>(samples.labels.size())) {
    return fail(ErrorCode::kCorrupt, "{} has {} samples, but {} has {} labels", samples.inputs_name,
                samples.shape.front(), samples.labels_name, samples.labels.size());
  }
  const auto strange = std::find_if(samples.labels.begin(), samples.labels.end(),
                                    [classes](std::int32_t label) { return label < 0 || label >= classes; });
  if (strange == samples.labels.end()) return {};
  return fail(ErrorCode::kCorrupt, "{}: label {} of sample {} is out of range: {} 0 to {}",
              samples.labels_name, *strange, strange - samples.labels.begin(), why, classes - 1);
}

// By the bits, and without a branch, so that a compiler can do several at once.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t strange = 0;
  for (const float value : values) {
    strange |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent);
  }
  return strange == 0;
}

// Training would find a loss that is not finite, at some step, and could not say why.
Status check_finite(const MemorySamples& samples) {
  const std::size_t elements = samples.floats.size() / static_cast<std::size_t>(samples.shape.front());
  for (std::size_t begin = 0; begin < samples.floats.size(); begin += elements) {
    const std::span<const float> sample = std::span(samples.floats).subspan(begin, elements);
    if (all_finite(sample)) continue;
    const auto strange =
        std::find_if_not(sample.begin(), sample.end(), [](float v) { return std::isfinite(v); });
    return fail(ErrorCode::kCorrupt, "{}: value {} of sample {} is {}; allowed: finite numbers",
                samples.inputs_name, strange - sample.begin(), begin / elements, *strange);
  }
  return {};
}

Status check_inputs(const MemorySamples& train, const MemorySamples& test) {
  if (!std::equal(train.shape.begin() + 1, train.shape.end(), test.shape.begin() + 1, test.shape.end())) {
    return fail(ErrorCode::kCorrupt, "{} has samples of {}, but {} of {}", train.inputs_name,
                shape_text(train), test.inputs_name, shape_text(test));
  }
  if (train.floats.empty() != test.floats.empty()) {
    const auto kind = [](const MemorySamples& s) { return s.floats.empty() ? "bytes" : "floats"; };
    return fail(ErrorCode::kCorrupt, "{} has {}, but {} has {}", train.inputs_name, kind(train),
                test.inputs_name, kind(test));
  }
  const auto is_zero = [](std::uint8_t byte) { return byte == 0; };
  if (train.floats.empty() && std::all_of(train.bytes.begin(), train.bytes.end(), is_zero)) {
    return fail(ErrorCode::kCorrupt, "{}: all values are 0, so there is nothing to learn from",
                train.inputs_name);
  }
  return {};
}

std::string fingerprint_of(std::string_view format, const MemorySamples& samples, std::int64_t classes,
                           int largest_byte) {
  constexpr std::int64_t kClassesOfAByte = 256;
  Sha256 hash;
  const std::string header =
      fmt::format("{} [{}] {} {}\n", format, fmt::join(samples.shape, ","), classes, largest_byte);
  hash.update(header.data(), header.size());
  hash.update(samples.bytes.data(), samples.bytes.size());
  hash.update(samples.floats.data(), samples.floats.size() * sizeof(float));
  if (classes <= kClassesOfAByte) {
    const std::vector<std::uint8_t> labels(samples.labels.begin(), samples.labels.end());
    hash.update(labels.data(), labels.size());
  } else {
    hash.update(samples.labels.data(), samples.labels.size() * sizeof(std::int32_t));
  }
  return hash.hex_digest();
}

}  // namespace

Result<DatasetPair> pair_in_memory(std::string_view format, MemorySamples train, MemorySamples test) {
  MUSTER_TRY(check_labels(train, kClassesMax, "labels are"));
  MUSTER_TRY(check_inputs(train, test));
  MUSTER_TRY(check_finite(train));
  MUSTER_TRY(check_finite(test));
  const std::int64_t classes = *std::max_element(train.labels.begin(), train.labels.end()) + std::int64_t{1};
  MUSTER_TRY(check_labels(test, classes, "the training labels are"));
  const int largest =
      train.bytes.empty() ? 0 : int{*std::max_element(train.bytes.begin(), train.bytes.end())};
  const auto make = [&](MemorySamples samples) {
    std::string fingerprint = fingerprint_of(format, samples, classes, largest);
    return std::make_shared<MemoryDataset>(std::move(samples), classes, largest, std::move(fingerprint));
  };
  return DatasetPair{make(std::move(train)), make(std::move(test))};
}

Status require_data_directory(const std::filesystem::path& directory) {
  MUSTER_ASSIGN(const bool is_there, file_exists(posix_file_ops(), directory));
  std::error_code unknown;
  if (std::filesystem::is_directory(directory, unknown)) return {};
  if (is_there) {
    return fail(ErrorCode::kNotFound, "{} is no directory; allowed: the directory that holds the data",
                directory.string());
  }
  return fail(ErrorCode::kNotFound, "data directory {} is not there", directory.string());
}

}  // namespace muster::data
