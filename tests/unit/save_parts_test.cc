#include "trainer/checkpoint/interval_advice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trainer/checkpoint/free_space.h"

namespace muster::checkpoint {
namespace {

TEST(IntervalAdvice, IsYoungsToFirstOrder) {
  for (const double save_s : {0.01, 0.5, 3.0}) {
    const double young = std::sqrt(2 * save_s * 86400);
    EXPECT_NEAR(daly_interval_s(save_s, 86400), young, 0.02 * young) << save_s;
  }
}

// The expected wall time of work W in intervals of t, with saves of C and restarts that cost nothing more, is
// M·(exp((t+C)/M) − 1)·W/t for exponential failures (Daly 2006, equation 13 with R = 0): no interval near the
// advised one is cheaper than it by more than Daly's own error.
TEST(IntervalAdvice, NoOtherIntervalLosesNoticeablyLess) {
  for (const auto& [save_s, mtbf_s] :
       {std::pair(1.0, 3600.0), std::pair(60.0, 3600.0), std::pair(600.0, 3600.0)}) {
    const double mtbf = mtbf_s;
    const double save = save_s;
    const auto cost = [&](double t) { return mtbf * std::expm1((t + save) / mtbf) / t; };
    const double advised = daly_interval_s(save, mtbf);
    for (double t = advised / 4; t < advised * 4; t *= 1.01) {
      EXPECT_LT(cost(advised), cost(t) * 1.001) << "save " << save << " s, interval " << t << " s";
    }
  }
}

TEST(IntervalAdvice, HasBounds) {
  EXPECT_EQ(daly_interval_s(200, 100), 100);
  EXPECT_EQ(advised_interval_s(1e-6, 10), 1);
  EXPECT_EQ(advised_interval_s(50, 30), 50);        // a save takes longer than Daly would wait
  EXPECT_EQ(advised_interval_s(3600, 1e9), 86400);  // a day
  EXPECT_EQ(advised_interval_s(90000, 1e9), 90000);
}

TEST(FreeSpace, AQuotaLeavesWhatItsHardLimitLeaves) {
  EXPECT_EQ(quota_left({}, 100), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(quota_left({1000, 0, 400, 0}, 100), 600);
  EXPECT_EQ(quota_left({1000, 0, 1000, 0}, 100), 0);
  EXPECT_EQ(quota_left({1000, 0, 1400, 0}, 100), 0);
}

TEST(FreeSpace, ASoftLimitCountsOnceItsGraceIsOver) {
  EXPECT_EQ(quota_left({1000, 300, 200, 0}, 100), 800);
  EXPECT_EQ(quota_left({1000, 300, 400, 101}, 100), 600);
  EXPECT_EQ(quota_left({1000, 300, 400, 100}, 100), 0);
  EXPECT_EQ(quota_left({0, 300, 400, 100}, 100), 0);
}

TEST(FreeSpace, ARealDirectoryHasSomeAndAMissingOneIsAnError) {
  const auto here = free_space_at("/");
  ASSERT_TRUE(here) << here.error().message;
  EXPECT_GE(here->bytes, 0);
  EXPECT_FALSE(here->limit.empty());
  const auto nowhere = free_space_at("/no/such/directory");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace muster::checkpoint
