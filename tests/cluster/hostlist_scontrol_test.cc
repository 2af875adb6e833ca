// Host lists mean to us what they mean to Slurm.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <sstream>

#include "slurm/hostlist.h"
#include "tests/support/emulated_cluster.h"

namespace muster {
namespace {

using Names = std::vector<std::string>;

class HostlistScontrolTest : public testing::ClusterTest {
 protected:
  // The names that scontrol makes of each text, in one call.
  static std::vector<Names> expanded_by_scontrol(const std::vector<std::string>& texts) {
    std::vector<std::string> words{
        "sh", "-c", "for list; do scontrol show hostnames \"$list\" || exit; echo; done", "sh"};
    words.insert(words.end(), texts.begin(), texts.end());
    const testing::ProgramResult result = cluster().on_controller(words);
    EXPECT_EQ(result.exit_code, 0) << result;
    std::vector<Names> all(1);
    std::istringstream in(result.out);
    for (std::string line; std::getline(in, line);) {
      if (line.empty()) {
        all.emplace_back();
      } else {
        all.back().push_back(line);
      }
    }
    all.pop_back();
    return all;
  }
};

TEST_F(HostlistScontrolTest, ExpandsAndCompressesAsScontrolDoes) {
  const unsigned seed = 20260708;
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<std::string> texts;
  std::vector<std::string> compressed;
  std::vector<Names> expected;
  std::vector<Names> expected_once;
  for (int round = 0; round < 60; ++round) {
    std::string text;
    for (int item = 0; item <= below(4); ++item) {
      const int first = below(120);
      const std::string digits = (below(3) == 0 ? "0" : "") + std::to_string(first);
      text += (text.empty() ? "" : ",") + std::string(below(2) == 0 ? "n" : "rack7-") + "[" + digits + "-" +
              std::to_string(first + below(12)) + (below(2) == 0 ? ",200" : "") + "]";
    }
    auto names = slurm::expand_hostlist(text);
    ASSERT_TRUE(names) << text;
    texts.push_back(text);
    expected.push_back(*names);
    compressed.push_back(slurm::compress_hostlist(*names));
    std::sort(names->begin(), names->end());
    names->erase(std::unique(names->begin(), names->end()), names->end());
    expected_once.push_back(*std::move(names));
  }
  EXPECT_EQ(expanded_by_scontrol(texts), expected);
  std::vector<Names> back = expanded_by_scontrol(compressed);
  for (Names& names : back) std::sort(names.begin(), names.end());
  EXPECT_EQ(back, expected_once);
}

}  // namespace
}  // namespace muster
