// SEAM: labelled samples that can be fetched by id.
// Thread safety: immutable after loading; any number of threads may fetch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace muster::data {

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;  // at least 1; ids are 0 … size-1
  virtual const std::vector<std::int64_t>& sample_shape() const = 0;
  virtual std::int64_t classes() const = 0;  // labels are 0 … classes-1
  // SHA-256 of everything that training sees: a run must not continue on other data.
  virtual const std::string& fingerprint() const = 0;

  // Writes the samples one after the other: inputs[ids.size() * elements of a sample], labels[ids.size()].
  // What it cannot read is an error that names the file.
  virtual Status fetch(std::span<const std::int64_t> ids, float* inputs, std::int32_t* labels) const = 0;
};

struct DatasetPair {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;  // same sample shape, classes and scaling as train
};

// By name: "idx", "hdf5". kInvalidArgument for another one.
Result<DatasetPair> load_datasets(const std::string& name, const std::filesystem::path& directory);

}  // namespace muster::data
