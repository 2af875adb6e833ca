// The run of the train loop's tests: everything on that could make a result depend on luck. All inline: each
// test executable includes it once.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/training_fixture.h"

namespace muster::testing {

using checkpoint::MemoryCheckpoints;
using Tensors = std::map<std::string, std::vector<float>>;

inline TrainingRun demanding_run(int ranks) {
  TrainingRun run;
  run.options = demanding_options();
  run.ranks = ranks;
  return run;
}

inline void expect_completed(const TrainingResult& result) {
  for (const auto& outcome : result.outcomes) {
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_FALSE(outcome->stopped);
    EXPECT_EQ(outcome->step, 30);
  }
}

inline Tensors undisturbed() {
  static const Tensors tensors = [] {
    auto backing = std::make_shared<MemoryCheckpoints>();
    expect_completed(run_training(demanding_run(1), backing));
    return newest_tensors(backing);
  }();
  return tensors;
}

// Runs on `ranks` until the stop at `step`, which only the last rank is told of.
inline std::shared_ptr<MemoryCheckpoints> stopped_at(int ranks, std::int64_t step) {
  auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = demanding_run(ranks);
  run.stop_rank = ranks - 1;
  run.stop_at_step = step;
  const TrainingResult result = run_training(run, backing);
  for (const auto& outcome : result.outcomes) {
    EXPECT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(outcome->stopped);
    EXPECT_EQ(outcome->step, result.outcomes[0]->step) << "ranks stopped at different steps";
    EXPECT_GE(outcome->step, step);
    EXPECT_LT(outcome->step, 30);
  }
  return backing;
}

}  // namespace muster::testing
