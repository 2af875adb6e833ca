#include "slurm/hostlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

namespace muster::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Names = std::vector<std::string>;

Names expanded(std::string_view text) { return expand_hostlist(text).value(); }

// What `scontrol show hostnames` of Slurm 22.05 gives.
TEST(Hostlist, ExpandsAsScontrolDoes) {
  EXPECT_THAT(expanded(""), IsEmpty());
  EXPECT_THAT(expanded("login"), ElementsAre("login"));
  EXPECT_THAT(expanded("n[1-3]"), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(expanded("n[1,3-4],a"), ElementsAre("n1", "n3", "n4", "a"));
  EXPECT_THAT(expanded("n[01-3]"), ElementsAre("n01", "n02", "n03"));
  EXPECT_THAT(expanded("n[8-012]"), ElementsAre("n8", "n9", "n10", "n11", "n12"));
  EXPECT_THAT(expanded("n[1,2]m[3,4]"), ElementsAre("n1m3", "n1m4", "n2m3", "n2m4"));
  EXPECT_THAT(expanded("gpu-[098-101].site"),
              ElementsAre("gpu-098.site", "gpu-099.site", "gpu-100.site", "gpu-101.site"));
  EXPECT_THAT(expanded("a,,b"), ElementsAre("a", "b"));
}

TEST(Hostlist, SaysWhatIsWrong) {
  for (const auto& [text, words] :
       std::vector<std::pair<std::string, std::string>>{{"n[3-1]", "'3-1'"},
                                                        {"n[a-b]", "'a-b'"},
                                                        {"n[1-]", "'1-'"},
                                                        {"n[]", "''"},
                                                        {"n[1", "not closed"},
                                                        {"n1]", "character 3 closes none"},
                                                        {"n[1[2]]", "character 4 opens within another"},
                                                        {"n[0-99999999]", "too many hosts"},
                                                        {"n[0-999]x[0-999]", "too many hosts"},
                                                        {"n[1-2-3]", "'1-2-3'"},
                                                        {"n[1234567890123456789012]", "no number"}}) {
    const auto names = expand_hostlist(text);
    ASSERT_FALSE(names) << text;
    EXPECT_EQ(names.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(names.error().message, HasSubstr(words)) << text;
  }
}

TEST(Hostlist, CompressesRunsAndKeepsWidths) {
  EXPECT_EQ(compress_hostlist({}), "");
  EXPECT_EQ(compress_hostlist({"n3", "n1", "n2", "n2"}), "n[1-3]");
  EXPECT_EQ(compress_hostlist({"n9", "n10", "n11", "n20"}), "n[9-11,20]");
  EXPECT_EQ(compress_hostlist({"login", "n07", "n08", "n8"}), "login,n8,n[07-08]");
  EXPECT_EQ(compress_hostlist({"r1n1", "r1n2", "r2n1"}), "r1n[1-2],r2n1");
  EXPECT_EQ(compress_hostlist({"n1.site", "n2.site"}), "n[1-2].site");
}

TEST(Hostlist, WhatWasCompressedExpandsToTheSameNames) {
  const unsigned seed = 20260707;
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 500; ++round) {
    Names names;
    for (int i = below(20); i > 0; --i) {
      std::string digits = std::to_string(below(120));
      while (below(3) == 0) digits.insert(0, "0");
      names.push_back(std::string(below(2) == 0 ? "n" : "rack2-") + digits + (below(4) == 0 ? ".x" : ""));
      if (below(8) == 0) names.emplace_back("login");
    }
    const std::string text = compress_hostlist(names);
    Names back = expanded(text);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::sort(back.begin(), back.end());
    EXPECT_EQ(back, names) << text;
  }
}

}  // namespace
}  // namespace muster::slurm
