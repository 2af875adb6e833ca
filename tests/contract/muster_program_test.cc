// The program `muster` as a whole: what it needs, and how fast it is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "tests/support/command.h"

namespace muster {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MusterProgram, NeedsNeitherMpiNorCudaNorHdf5) {
  const auto result = testing::run_command({"ldd", testing::built_program("muster")});
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("libcrypto"));
  for (const char* library : {"libhdf5", "libmpi", "libopen-rte", "libopen-pal", "libcuda", "libcudart"}) {
    EXPECT_THAT(result.output, Not(HasSubstr(library)));
  }
}

// It takes some 10 ms; the margin is for a busy machine.
TEST(MusterProgram, IsThereAtOnce) {
  using std::chrono::steady_clock;
  constexpr std::size_t kStarts = 11;
  const std::vector<std::string> command{testing::built_program("muster"), "--version"};
  std::vector<std::chrono::duration<double, std::milli>> took;
  for (std::size_t i = 0; i < kStarts; ++i) {
    const auto began = steady_clock::now();
    const auto result = testing::run_command(command);
    took.emplace_back(steady_clock::now() - began);
    ASSERT_EQ(result.exit_code, 0);
    ASSERT_THAT(result.output, ContainsRegex("^muster [0-9]+\\.[0-9]+"));
  }
  std::sort(took.begin(), took.end());
  EXPECT_LT(took[kStarts / 2].count(), 200) << "ms, the median of " << kStarts << " starts";
}

}  // namespace
}  // namespace muster
