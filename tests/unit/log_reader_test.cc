#include "launcher/log_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TemporaryDirectory;

class LogReaderTest : public ::testing::Test {
 protected:
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(directory_.path() / name, std::ios::app) << text;
  }
  void rotate(const std::string& name) const {
    fs::rename(directory_.path() / name, directory_.path() / (name + ".1"));
  }
  // What is new, as "RANK:LINE".
  std::vector<std::string> read(AttemptLogs& logs, bool finish = false) const {
    std::vector<std::string> lines;
    const auto sink = [&](int rank, std::string_view line) {
      lines.push_back(std::to_string(rank) + ":" + std::string(line));
    };
    logs.read(sink);
    if (finish) logs.finish(sink);
    return lines;
  }
  TemporaryDirectory directory_;
};

TEST_F(LogReaderTest, WholeLinesAsTheyAppear) {
  AttemptLogs logs(directory_.path(), std::nullopt);
  EXPECT_THAT(read(logs), IsEmpty());
  append("rank-0.log", "a\nb");
  EXPECT_THAT(read(logs), ElementsAre("0:a"));
  append("rank-0.log", "c\n\nd");
  append("rank-10.log", "ten\n");
  append("launcher.log", "mpirun\n");
  append("rank-x.log", "not a rank\n");
  EXPECT_THAT(read(logs), ElementsAre("-1:mpirun", "0:bc", "0:", "10:ten"));
  EXPECT_THAT(read(logs), IsEmpty());
  EXPECT_THAT(read(logs, true), ElementsAre("0:d"));
  EXPECT_THAT(read(logs, true), IsEmpty());
}

TEST_F(LogReaderTest, FollowsARotationWithoutLossOrRepetition) {
  append("rank-0.log", "1\n2\n");
  AttemptLogs logs(directory_.path(), 0);
  EXPECT_THAT(read(logs), ElementsAre("0:1", "0:2"));
  append("rank-0.log", "3\n4");  // not read before the rotation
  rotate("rank-0.log");
  append("rank-0.log", "4\n5\n");
  EXPECT_THAT(read(logs), ElementsAre("0:3", "0:44", "0:5"));
  rotate("rank-0.log");  // and the new file is not there yet
  EXPECT_THAT(read(logs), IsEmpty());
  append("rank-0.log", "6\n");
  EXPECT_THAT(read(logs), ElementsAre("0:6"));
}

TEST_F(LogReaderTest, BeginsWithTheOlderFile) {
  append("rank-0.log.1", "old\n");
  append("rank-0.log", "new\n");
  AttemptLogs logs(directory_.path(), 0);
  EXPECT_THAT(read(logs), ElementsAre("0:old", "0:new"));
}

TEST_F(LogReaderTest, OneRankOnly) {
  append("rank-0.log", "zero\n");
  append("rank-1.log", "one\n");
  append("launcher.log", "mpirun\n");
  AttemptLogs logs(directory_.path(), 1);
  EXPECT_THAT(read(logs), ElementsAre("1:one"));
}

TEST_F(LogReaderTest, AttemptsInTheirOrder) {
  for (const char* name : {"attempt-10", "attempt-2", "attempt-x", "other"}) {
    fs::create_directory(directory_.path() / name);
  }
  EXPECT_THAT(attempts_with_logs(directory_.path()), ElementsAre(2, 10));
  EXPECT_THAT(attempts_with_logs(directory_.path() / "none"), IsEmpty());
}

}  // namespace
}  // namespace muster
