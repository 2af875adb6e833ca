#include "launcher/rank_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/file_ops.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RankLogsTest : public ::testing::Test {
 protected:
  std::string content(const std::string& name) const {
    const auto text = read_text_file(temporary_.path() / "logs" / name);
    return text ? *text : "(" + text.error().message + ")";
  }
  RankLogs open(std::uint64_t bytes_max) const {
    return *RankLogs::open(temporary_.path() / "logs", bytes_max);
  }
  testing::TemporaryDirectory temporary_;
};

TEST_F(RankLogsTest, OneFileARankAndOneForTheLauncher) {
  RankLogs logs = open(1000);
  logs.write(0, "zero");
  logs.write(-1, "mpirun");
  logs.write(0, "more");
  logs.flush();
  EXPECT_EQ(content("rank-0.log"), "zero\nmore\n");
  EXPECT_EQ(content("launcher.log"), "mpirun\n");
  EXPECT_EQ(logs.path_of(0), temporary_.path() / "logs" / "rank-0.log");
}

TEST_F(RankLogsTest, KeepsTheNewestWithinTwiceTheLimit) {
  constexpr std::uint64_t kLimit = 100;
  RankLogs logs = open(kLimit);
  for (int i = 0; i < 1000; ++i) {
    logs.write(0, "line " + std::to_string(i));
    if (i % 7 == 0) logs.flush();
  }
  logs.flush();
  const std::string newest = content("rank-0.log");
  const std::string older = content("rank-0.log.1");
  EXPECT_LE(newest.size(), kLimit);
  EXPECT_LE(older.size(), kLimit);
  EXPECT_TRUE(newest.ends_with("line 999\n"));
  // Nothing is missing between the two.
  int next = std::stoi(older.substr(5));
  std::istringstream lines(older + newest);
  for (std::string line; std::getline(lines, line); ++next) EXPECT_EQ(line, "line " + std::to_string(next));
  EXPECT_EQ(next, 1000);
}

TEST_F(RankLogsTest, ALineBeyondTheLimitIsWrittenWhole) {
  RankLogs logs = open(10);
  logs.write(0, std::string(50, 'x'));
  logs.write(0, "y");
  logs.flush();
  EXPECT_EQ(content("rank-0.log.1"), std::string(50, 'x') + "\n");
  EXPECT_EQ(content("rank-0.log"), "y\n");
}

TEST_F(RankLogsTest, GoesOnInAnExistingFile) {
  {
    RankLogs logs = open(1000);
    logs.write(0, "before");
    logs.flush();
  }
  RankLogs logs = open(1000);
  logs.write(0, "after");
  logs.flush();
  EXPECT_EQ(content("rank-0.log"), "before\nafter\n");
}

TEST_F(RankLogsTest, RemembersTheLastLines) {
  RankLogs logs = open(1000);
  EXPECT_THAT(logs.tail(0), IsEmpty());
  for (std::size_t i = 0; i < 2 * RankLogs::kTailLines; ++i) logs.write(0, std::to_string(i));
  EXPECT_EQ(logs.tail(0).size(), RankLogs::kTailLines);
  EXPECT_EQ(logs.tail(0).back(), std::to_string(2 * RankLogs::kTailLines - 1));
}

// The report of a failure once showed the trainer's events as JSON, and not what it had to say.
TEST_F(RankLogsTest, WhatIsForProgramsIsWrittenAndNotRemembered) {
  RankLogs logs = open(1000);
  logs.write(0, "no such data");
  for (std::size_t i = 0; i < 2 * RankLogs::kTailLines; ++i) logs.write(0, "{}", RankLogs::Reader::kProgram);
  logs.flush();
  EXPECT_THAT(logs.tail(0), ElementsAre("no such data"));
  EXPECT_EQ(content("rank-0.log").size(), 13 + 2 * RankLogs::kTailLines * 3);
}

TEST_F(RankLogsTest, ALogThatCannotBeWrittenIsReportedNotFatal) {
  RankLogs logs = open(1000);
  std::filesystem::create_directory(temporary_.path() / "logs" / "rank-0.log");
  logs.write(0, "x");
  logs.write(1, "y");
  logs.flush();
  EXPECT_THAT(logs.error(), HasSubstr("rank-0.log"));
  EXPECT_EQ(content("rank-1.log"), "y\n");
}

}  // namespace
}  // namespace muster
