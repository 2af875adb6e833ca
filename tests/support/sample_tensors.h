// Tensors with known contents, cut into row slices for any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_store.h"

namespace muster::testing {

struct SampleTensor {
  std::string name;
  std::vector<std::int64_t> shape;

  std::int64_t row_elements() const {
    std::int64_t elements = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) elements *= shape[i];
    return elements;
  }
  std::int64_t elements() const { return shape.front() * row_elements(); }
};

// Odd names, a scalar, more ranks than rows, no elements in two ways, a tensor of several blocks' size.
inline std::vector<SampleTensor> sample_tensors() {
  return {{"parameters/layer0.weight", {7, 5}},
          {"parameters/layer0.bias", {7}},
          {"parameters/scalar", {1}},
          {"parameters/conv 1/w\xC3\xA4ight 100%b %%'\"[0];", {3, 2, 2, 3}},
          {"parameters/empty", {0, 4}},
          {"parameters/flat", {4, 0}},
          {"parameters/large", {601, 1024}},
          {"optimizer/layer0.weight/exp_avg", {7, 5}},
          {"optimizer/layer0.weight/exp_avg_sq", {7, 5}},
          {"buffers/not hashed", {2}}};
}

// A different value for each element of each tensor and step.
inline std::vector<float> sample_values(const SampleTensor& tensor, std::int64_t step) {
  const auto salt = static_cast<float>(std::hash<std::string>()(tensor.name) % 1000);
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = salt + static_cast<float>(step) * 0.25F - static_cast<float>(i) / 3.0F;
  }
  return values;
}

// One rank's share of all tensors: rows [n * rank / size, n * (rank + 1) / size).
class SampleShare {
 public:
  SampleShare(const std::vector<SampleTensor>& tensors, std::int64_t step, int rank, int size) {
    values_.reserve(tensors.size());
    for (const SampleTensor& tensor : tensors) {
      values_.push_back(sample_values(tensor, step));
      const std::int64_t rows = tensor.shape.front();
      checkpoint::TensorSlice slice;
      slice.name = tensor.name;
      slice.global_shape = tensor.shape;
      slice.row_begin = rows * rank / size;
      slice.row_end = rows * (rank + 1) / size;
      slice.data = values_.back().data() + slice.row_begin * tensor.row_elements();
      slices_.push_back(slice);
    }
  }

  const std::vector<checkpoint::TensorSlice>& slices() const { return slices_; }
  std::vector<checkpoint::TensorSlice>& slices() { return slices_; }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<checkpoint::TensorSlice> slices_;
};

// What a trainer stores beside tensors.
inline nlohmann::json sample_state(std::int64_t step) {
  return {{"step", step},
          {"epoch", 2},
          {"data", {{"position", 384}, {"seed", 18446744073709551615ULL}}},
          {"random_counters", {1, 2, 3}},
          {"optimizer", {{"name", "adamw"}, {"step", step}, {"learning_rate", 0.1}}},
          {"configuration", {{"hidden", {512, 256}}, {"dropout", 0.2}, {"reproducible", true}}},
          {"note", "caf\xC3\xA9"},
          {"nothing", nullptr},
          {"names", {"a", "b"}}};
}

}  // namespace muster::testing
