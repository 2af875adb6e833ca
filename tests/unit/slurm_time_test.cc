#include "slurm/slurm_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

namespace muster::slurm {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Kind = TimeSpan::Kind;

TEST(SlurmTimeSpan, ReadsEveryFormOfSlurm) {
  const std::vector<std::pair<std::string, seconds>> forms{
      {"0", seconds(0)},
      {"30", minutes(30)},
      {"90", minutes(90)},
      {"30:00", minutes(30)},
      {"90:30", minutes(90) + seconds(30)},
      {"00:05", seconds(5)},
      {"1:30:00", hours(1) + minutes(30)},
      {"36:00:00", hours(36)},
      {"2-12", days(2) + hours(12)},
      {"2-12:30", days(2) + hours(12) + minutes(30)},
      {"2-12:30:15", days(2) + hours(12) + minutes(30) + seconds(15)},
      {"365-00:00:00", days(365)},
      {"0-00:00:01", seconds(1)}};
  for (const auto& [text, length] : forms) {
    const auto span = parse_time_span(text);
    ASSERT_TRUE(span) << text;
    EXPECT_EQ(*span, TimeSpan::finite(length)) << text;
  }
}

TEST(SlurmTimeSpan, ReadsTheWordsInItsPlace) {
  for (const auto& [text, kind] :
       std::vector<std::pair<std::string, Kind>>{{"UNLIMITED", Kind::kUnlimited},
                                                 {"unlimited", Kind::kUnlimited},
                                                 {"INFINITE", Kind::kUnlimited},
                                                 {"Partition_Limit", Kind::kPartitionLimit},
                                                 {"NOT_SET", Kind::kNotSet},
                                                 {"INVALID", Kind::kInvalid}}) {
    const auto span = parse_time_span(text);
    ASSERT_TRUE(span) << text;
    EXPECT_EQ(span->kind, kind) << text;
  }
}

TEST(SlurmTimeSpan, RefusesWhatIsNone) {
  for (const char* text : {"",
                           " ",
                           "x",
                           "-1",
                           "1-",
                           "-",
                           ":",
                           "1:",
                           ":30",
                           "1:60",
                           "1:60:00",
                           "1:00:60",
                           "1-24",
                           "1-12:60",
                           "1-1-1",
                           "1:2:3:4",
                           "1.5",
                           "+1",
                           "1:-5",
                           "1- 2",
                           "30m",
                           "UNLIMITED ",
                           "99999999999999999999",
                           "9999999999999",
                           "99999-0",
                           "36525-0",
                           "9999999999:00:00"}) {
    const auto span = parse_time_span(text);
    ASSERT_FALSE(span) << text;
    EXPECT_EQ(span.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(span.error().message, HasSubstr("'" + std::string(text) + "' is no length of time"));
  }
}

TEST(SlurmTimeSpan, IsWrittenWithDays) {
  EXPECT_EQ(format_time_span(TimeSpan::finite(seconds(0))), "0-00:00:00");
  EXPECT_EQ(format_time_span(TimeSpan::finite(minutes(90) + seconds(5))), "0-01:30:05");
  EXPECT_EQ(format_time_span(TimeSpan::finite(hours(60))), "2-12:00:00");
  EXPECT_EQ(format_time_span({Kind::kUnlimited, seconds(0)}), "UNLIMITED");
  EXPECT_EQ(format_time_span({Kind::kPartitionLimit, seconds(0)}), "Partition_Limit");
  EXPECT_EQ(format_time_span({Kind::kNotSet, seconds(0)}), "NOT_SET");
  EXPECT_EQ(format_time_span({Kind::kInvalid, seconds(0)}), "INVALID");
}

TEST(SlurmTimeSpan, WhatWasWrittenIsReadBack) {
  const unsigned seed = 20260709;
  std::printf("seed %u\n", seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const int bits = static_cast<int>(random() % 31);
    const TimeSpan span = TimeSpan::finite(seconds(random() & ((std::uint64_t{1} << bits) - 1)));
    const std::string text = format_time_span(span);
    const auto back = parse_time_span(text);
    ASSERT_TRUE(back) << text;
    EXPECT_EQ(*back, span) << text;
  }
}

TEST(SlurmMoment, ReadsWhatTheCommandsPrint) {
  const auto moment = parse_moment("2026-11-30T12:00:00");
  ASSERT_TRUE(moment);
  EXPECT_EQ((*moment)->time_since_epoch(), seconds(1'796'040'000));  // date -u -d … +%s
  EXPECT_EQ((*parse_moment("1970-01-01T00:00:00"))->time_since_epoch(), seconds(0));
  EXPECT_EQ((*parse_moment("2028-02-29T23:59:59"))->time_since_epoch(), seconds(1'835'481'599));
  for (const char* text : {"Unknown", "N/A", "None", "(null)"}) {
    const auto none = parse_moment(text);
    ASSERT_TRUE(none) << text;
    EXPECT_FALSE(*none) << text;
  }
}

TEST(SlurmMoment, RefusesWhatIsNone) {
  for (const char* text :
       {"", "now", "2026-11-30", "2026-11-30 12:00:00", "2026-13-01T00:00:00", "2026-02-29T00:00:00",
        "2026-11-31T00:00:00", "2026-11-30T24:00:00", "2026-11-30T12:60:00", "2026-11-30T12:00:60",
        "2026-11-30T12:00:00Z", "2026-1-30T12:00:000", "2026-00-10T00:00:00", "-026-11-30T12:00:00",
        "2026-11-30T1+:00:00", "unknown"}) {
    const auto moment = parse_moment(text);
    ASSERT_FALSE(moment) << text;
    EXPECT_EQ(moment.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(SlurmMoment, WhatWasWrittenIsReadBack) {
  const unsigned seed = 20260710;
  std::printf("seed %u\n", seed);
  std::mt19937_64 random(seed);
  EXPECT_EQ(format_moment(std::nullopt), "Unknown");
  EXPECT_EQ(format_moment(std::chrono::sys_seconds(seconds(1'796'040'000))), "2026-11-30T12:00:00");
  for (int round = 0; round < 2000; ++round) {
    const std::chrono::sys_seconds moment{seconds(random() % 10'000'000'000)};
    const auto back = parse_moment(format_moment(moment));
    ASSERT_TRUE(back) << format_moment(moment);
    EXPECT_EQ(**back, moment) << format_moment(moment);
  }
}

}  // namespace
}  // namespace muster::slurm
