// Splitting mpirun's tagged output by rank.
#include "launcher/tagged_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace muster {
namespace {

using ::testing::ElementsAre;
using Line = std::tuple<int, bool, std::string>;

std::vector<Line> split(const std::vector<std::string>& pieces, int world_size = 4,
                        bool untagged_is_stderr = true) {
  std::vector<Line> lines;
  const auto sink = [&](int rank, bool is_stderr, std::string_view line) {
    lines.emplace_back(rank, is_stderr, std::string(line));
  };
  TaggedOutputSplitter splitter(world_size, untagged_is_stderr);
  for (const std::string& piece : pieces) splitter.feed(piece, sink);
  splitter.finish(sink);
  return lines;
}

TEST(TaggedOutput, SplitsByRankAndStream) {
  EXPECT_THAT(split({"[1,0]<stdout>:a\n[1,1]<stderr>:b\n[1,3]<stddiag>:c\n"}),
              ElementsAre(Line{0, false, "a"}, Line{1, true, "b"}, Line{3, true, "c"}));
}

TEST(TaggedOutput, WhatHasNoTagIsTheLaunchers) {
  EXPECT_THAT(split({"-----\n[1,0]<stdout>:a\nPrimary job\n\n"}),
              ElementsAre(Line{-1, true, "-----"}, Line{0, false, "a"}, Line{-1, true, "Primary job"},
                          Line{-1, true, ""}));
  EXPECT_THAT(split({"x\n"}, 4, false), ElementsAre(Line{-1, false, "x"}));
}

// Recorded: two ranks print "abc", wait, print "def\n" and "xx".
TEST(TaggedOutput, JoinsUnfinishedLinesOfEachRank) {
  EXPECT_THAT(split({"[1,0]<stdout>:abc[1,1]<stdout>:hello out 1\n[1,1]<stdout>:abc[1,0]<stdout>:def\n",
                     "[1,0]<stdout>:xx[1,1]<stdout>:def\n[1,1]<stdout>:xx"}),
              ElementsAre(Line{1, false, "hello out 1"}, Line{0, false, "abcdef"}, Line{1, false, "abcdef"},
                          Line{0, false, "xx"}, Line{1, false, "xx"}));
}

TEST(TaggedOutput, IsTheSameForEveryCutOfTheStream) {
  const std::string text =
      "[vm:1] note\n[1,0]<stdout>:one [1,2] [x\n[1,1]<stderr>:par[1,0]<stdout>:two\n[1,1]<stderr>:tial\n[1,";
  const auto whole = split({text});
  EXPECT_EQ(whole.size(), 5U);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(split({text.substr(0, cut), text.substr(cut)}), whole) << "cut at " << cut;
  }
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  EXPECT_EQ(split(bytes), whole);
}

TEST(TaggedOutput, TakesOnlyTagsOfThisJobsRanks) {
  EXPECT_THAT(
      split(
          {"[1,4]<stdout>:a\n[2,0]<stdout>:b\n[1,99999999999]<stdout>:c\n[1,]<stdout>:d\n[1,0]<stdin>:e\n"}),
      ElementsAre(Line{-1, true, "[1,4]<stdout>:a"}, Line{-1, true, "[2,0]<stdout>:b"},
                  Line{-1, true, "[1,99999999999]<stdout>:c"}, Line{-1, true, "[1,]<stdout>:d"},
                  Line{-1, true, "[1,0]<stdin>:e"}));
}

TEST(TaggedOutput, DropsCarriageReturnsBeforeNewlines) {
  EXPECT_THAT(split({"[1,0]<stdout>:a\r\n"}), ElementsAre(Line{0, false, "a"}));
}

TEST(TaggedOutput, HandsOverEndlessLinesInPieces) {
  const std::size_t limit = TaggedOutputSplitter::kLineBytesMax;
  const auto lines = split({"[1,0]<stdout>:" + std::string(limit + 5, 'x')});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(std::get<2>(lines[0]).size(), limit);
  EXPECT_EQ(std::get<2>(lines[1]).size(), 5U);
}

}  // namespace
}  // namespace muster
