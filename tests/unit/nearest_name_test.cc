// Which name a misspelt one is taken for, and which is left alone.
#include "launcher/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster {
namespace {

TEST(NearestName, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("seed", "seed"), 0);
  EXPECT_EQ(edit_distance("sede", "seed"), 1);  // a swap
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("Num-Workers", "num_workers"), 0);
  EXPECT_EQ(edit_distance("abcd", "badc"), 2);  // two swaps
}

TEST(NearestName, IsSymmetric) {
  for (const char* a : {"", "a", "epochs", "steps", "momentum"}) {
    for (const char* b : {"", "ab", "epoch", "setps", "momentun"}) {
      EXPECT_EQ(edit_distance(a, b), edit_distance(b, a)) << a << ' ' << b;
    }
  }
}

TEST(NearestName, FindsTheClosest) {
  const std::vector<std::string> known{"num_workers", "ranks_per_worker", "args", "env"};
  EXPECT_EQ(nearest_name("num_wrokers", known), "num_workers");
  EXPECT_EQ(nearest_name("rank_per_worker", known), "ranks_per_worker");
  EXPECT_EQ(nearest_name("arg", known), "args");
  EXPECT_EQ(nearest_name("evn", known), "env");
}

TEST(NearestName, LeavesStrangersAlone) {
  const std::vector<std::string> known{"num_workers", "args", "env"};
  EXPECT_EQ(nearest_name("frobnicate", known), std::nullopt);
  EXPECT_EQ(nearest_name("xyz", known), std::nullopt);
  EXPECT_EQ(nearest_name("env", {}), std::nullopt);
}

}  // namespace
}  // namespace muster
