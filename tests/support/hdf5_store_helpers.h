// Saving and loading sample checkpoints in a directory, by thread-ranks.
#pragma once

#include <filesystem>
#include <vector>

#include "common/file_ops.h"
#include "tests/support/sample_tensors.h"
#include "tests/support/thread_ranks.h"
#include "trainer/checkpoint/hdf5_store.h"

namespace muster::testing {

struct StoreSetup {
  std::filesystem::path directory;
  int ranks = 1;
  std::int32_t generation = 1;
  checkpoint::Retention retention;
  std::vector<SampleTensor> tensors = sample_tensors();
  FileOps* ops = &posix_file_ops();
  checkpoint::FreeSpaceAt free_space = checkpoint::free_space_at;
};

inline Result<std::unique_ptr<checkpoint::CheckpointStore>> open_store(const StoreSetup& setup,
                                                                       const checkpoint::Group& group) {
  checkpoint::Hdf5StoreOptions options;
  options.directory = setup.directory;
  options.retention = setup.retention;
  options.generation = setup.generation;
  options.code = "test program 1.2";
  options.free_space = setup.free_space;
  return checkpoint::open_hdf5_store(std::move(options), group, *setup.ops);
}

// The outcome on every rank.
inline std::vector<Result<checkpoint::SaveReport>> save_sample(const StoreSetup& setup, std::int64_t step,
                                                               std::optional<double> metric = {}) {
  return on_ranks(setup.ranks, [&](const checkpoint::Group& group) -> Result<checkpoint::SaveReport> {
    const SampleShare share(setup.tensors, step, group.rank, group.size);
    checkpoint::SaveRequest request;
    request.step = step;
    request.state = sample_state(step);
    request.metric = metric;
    request.slices = share.slices();
    request.generation = setup.generation;
    MUSTER_ASSIGN(const auto store, open_store(setup, group));
    return checkpoint::save_and_wait(*store, request, std::chrono::minutes(1));
  });
}

// The step that every rank loaded with the right contents (-1: there was none), or the first error.
struct LoadedStep {
  std::int64_t step = -1;
  std::vector<checkpoint::Quarantined> quarantined;
};

inline Result<LoadedStep> load_sample(const StoreSetup& setup) {
  const auto results = on_ranks(setup.ranks, [&](const checkpoint::Group& group) -> Result<LoadedStep> {
    MUSTER_ASSIGN(const auto store, open_store(setup, group));
    MUSTER_ASSIGN(checkpoint::LoadOutcome outcome, store->load_latest());
    LoadedStep loaded{-1, std::move(outcome.quarantined)};
    if (outcome.checkpoint == nullptr) return loaded;
    loaded.step = outcome.checkpoint->state().at("step").get<std::int64_t>();
    for (const SampleTensor& tensor : setup.tensors) {
      std::vector<float> got(static_cast<std::size_t>(tensor.elements()));
      MUSTER_TRY(outcome.checkpoint->read_rows(tensor.name, 0, tensor.shape.front(), got.data()));
      if (got != sample_values(tensor, loaded.step))
        return fail(ErrorCode::kMismatch, "{} differs", tensor.name);
    }
    return loaded;
  });
  for (const auto& result : results) {
    if (!result) return result;
    if (result->step != results.front()->step)
      return fail(ErrorCode::kMismatch, "ranks loaded different steps");
  }
  return results.front();
}

// A few small tensors: for tests that save very often.
inline std::vector<SampleTensor> small_tensors() {
  return {{"parameters/a", {5, 3}}, {"optimizer/a/exp_avg", {5, 3}}, {"parameters/b", {2}}};
}

}  // namespace muster::testing
