#include "trainer/early_stop.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

namespace muster {
namespace {

// The evaluation, counted from 1, at which the rule stops; 0: never.
int stops_at(const EarlyStopRule& rule, const std::vector<double>& values) {
  EarlyStopState state;
  for (std::size_t i = 0; i < values.size(); ++i) {
    state = judge_evaluation(rule, state, values[i], static_cast<std::int64_t>(10 * (i + 1)));
    if (should_stop(rule, state)) return static_cast<int>(i) + 1;
    // As through a checkpoint.
    EXPECT_EQ(early_stop_state_from_json(nlohmann::json::parse(to_json(state).dump())), state);
  }
  return 0;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(EarlyStop, CountsEvaluationsInARowWithoutImprovement) {
  EXPECT_EQ(stops_at({"accuracy", 2, 0}, {0.5, 0.6, 0.6, 0.7, 0.7, 0.69, 0.9}), 6);
  EXPECT_EQ(stops_at({"accuracy", 1, 0}, {0.5, 0.5}), 2) << "an equal value is no improvement";
  EXPECT_EQ(stops_at({"accuracy", 3, 0}, {0.1, 0.2, 0.3, 0.4}), 0);
}

TEST(EarlyStop, ALossImprovesDownwards) {
  EXPECT_EQ(stops_at({"loss", 2, 0}, {1.0, 0.5, 0.6, 0.4, 0.41, 0.42}), 6);
  EXPECT_EQ(stops_at({"loss", 1, 0}, {-1.0, -2.0, -3.0}), 0) << "the first value counts, whatever its sign";
}

TEST(EarlyStop, AnImprovementIsMoreThanTheLeastThatCounts) {
  EXPECT_EQ(stops_at({"accuracy", 2, 0.25}, {0.25, 0.5, 0.375}), 3) << "exactly min_delta is none";
  EXPECT_EQ(stops_at({"accuracy", 2, 0.25}, {0.25, 0.375, 0.625, 0.875}), 0) << "it is the best that counts";
}

TEST(EarlyStop, WhatIsNotFiniteIsNeverAnImprovementNorTheBest) {
  EXPECT_EQ(stops_at({"loss", 2, 0}, {kNan, kNan}), 2);
  EXPECT_EQ(stops_at({"loss", 2, 0}, {kNan, 3.0, kNan, 2.0, kNan, kNan}), 6);
}

TEST(EarlyStop, ARunThatGoesOnWithAnotherRuleIsJudgedByThatOne) {
  EarlyStopState state;
  for (int i = 1; i <= 3; ++i) state = judge_evaluation({"accuracy", 2, 0}, state, 0.5, i);
  EXPECT_TRUE(should_stop({"accuracy", 2, 0}, state));
  EXPECT_FALSE(should_stop({"accuracy", 3, 0}, state));
  EXPECT_FALSE(should_stop({}, state)) << "no rule any more";
  EXPECT_FALSE(should_stop({"loss", 2, 0}, state)) << "the evaluations were of another metric";
  state = judge_evaluation({"loss", 1, 0}, state, 0.7, 4);
  EXPECT_EQ(state.best, 0.7);
  EXPECT_EQ(state.without_improvement, 0);
}

TEST(EarlyStop, ExplainsItself) {
  EarlyStopState state;
  const EarlyStopRule rule{"accuracy", 2, 0.01};
  for (const std::int64_t step : {40, 80, 120}) state = judge_evaluation(rule, state, 0.95, step);
  EXPECT_TRUE(should_stop(rule, state));
  EXPECT_EQ(explain(rule, state),
            "accuracy has not improved by more than 0.01 in 2 evaluations; the best was 0.95, at step 40");
}

}  // namespace
}  // namespace muster
