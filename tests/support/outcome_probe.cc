// Tests that pass, are skipped and fail, for tests/mpi/test_outcome_test.cc to choose from: built with each
// main(), and no test of ctest's itself.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace muster {
namespace {

bool is_rank(std::string_view rank) {
  const char* own = std::getenv("OMPI_COMM_WORLD_RANK");
  return own != nullptr && rank == own;
}

TEST(Probe, Passes) {}
TEST(Probe, IsSkipped) { GTEST_SKIP() << "nothing to see"; }
TEST(Probe, Fails) { FAIL(); }
TEST(Probe, IsSkippedOnRank0) {
  if (is_rank("0")) GTEST_SKIP();
}
TEST(Probe, FailsOnRank1) { EXPECT_FALSE(is_rank("1")); }

class SkipAll : public ::testing::Environment {
  void SetUp() override {
    if (std::getenv("PROBE_SKIPS_ALL") != nullptr) GTEST_SKIP() << "not here";
  }
};
[[maybe_unused]] ::testing::Environment* const skip_all = ::testing::AddGlobalTestEnvironment(new SkipAll);

}  // namespace
}  // namespace muster
