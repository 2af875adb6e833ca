// Durations and sizes, as people and Slurm write them.
#include "launcher/units.h"

#include <gtest/gtest.h>

#include <random>

namespace muster {
namespace {

using std::chrono::milliseconds;

struct DurationCase {
  const char* text;
  long long ms;
};

TEST(Units, ReadsDurations) {
  constexpr long long kMinute = 60'000;
  constexpr long long kHour = 60 * kMinute;
  constexpr long long kDay = 24 * kHour;
  const DurationCase cases[] = {
      {"90s", 90'000},
      {"30m", 30 * kMinute},
      {"2h", 2 * kHour},
      {"3d", 3 * kDay},
      {"500ms", 500},
      {"1h30m", 90 * kMinute},
      {"1d2h3m4s5ms", kDay + 2 * kHour + 3 * kMinute + 4'005},
      {"0s", 0},
      {"120m", 120 * kMinute},
      {"30:00", 30 * kMinute},
      {"90:15", 90 * kMinute + 15'000},
      {"1:30:00", 90 * kMinute},
      {"36:00:00", 36 * kHour},
      {"2-12", 2 * kDay + 12 * kHour},
      {"2-12:30", 2 * kDay + 12 * kHour + 30 * kMinute},
      {"1-12:30:00", kDay + 12 * kHour + 30 * kMinute},
      {"0-00:00:01", 1'000},
  };
  for (const auto& [text, ms] : cases) {
    const auto parsed = parse_duration(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->count(), ms) << text;
  }
}

TEST(Units, RefusesWhatIsNoDuration) {
  for (const char* text : {"",
                           "30",
                           "s",
                           "1.5h",
                           "-1s",
                           "1s-",
                           "1m1h",
                           "1s1s",
                           "5 s",
                           "5S",
                           "1:60",
                           "1:60:00",
                           "1:2:3:4",
                           "1-24",
                           "1-1:60",
                           "1-",
                           "-1",
                           "1-2-3",
                           ":30",
                           "30:",
                           "1::2",
                           "1:-2",
                           "+5s",
                           "1e3s",
                           "0x5s",
                           "5min",
                           "unlimited",
                           "99999999999999999999s",
                           "3651d",
                           "99999999:00:00",
                           "9223372036854775807ms"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(Units, WritesDurationsThatReadBack) {
  EXPECT_EQ(format_duration(milliseconds(0)), "0s");
  EXPECT_EQ(format_duration(milliseconds(5'400'000)), "1h30m");
  EXPECT_EQ(format_duration(milliseconds(1'500)), "1s500ms");
  constexpr unsigned kSeed = 7;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 1000; ++i) {
    const milliseconds duration(random() % 3'000'000'000ULL);
    EXPECT_EQ(parse_duration(format_duration(duration)), duration) << "seed " << kSeed;
  }
}

TEST(Units, ReadsMemory) {
  EXPECT_EQ(parse_memory("1K"), 1024U);
  EXPECT_EQ(parse_memory("512M"), 512ULL << 20U);
  EXPECT_EQ(parse_memory("64G"), 64ULL << 30U);
  EXPECT_EQ(parse_memory("64g"), 64ULL << 30U);
  EXPECT_EQ(parse_memory("2T"), 2ULL << 40U);
  EXPECT_EQ(parse_memory("16777215T"), 16'777'215ULL << 40U);
}

TEST(Units, RefusesWhatIsNoMemory) {
  for (const char* text : {"", "64", "G", "64GB", "64 G", "6.4G", "-1G", "16777216T", "64P", "64\x07"}) {
    EXPECT_FALSE(parse_memory(text)) << text;
  }
}

TEST(Units, WritesMemory) {
  EXPECT_EQ(format_memory(64ULL << 30U), "64G");
  EXPECT_EQ(format_memory(1536ULL << 20U), "1536M");
  EXPECT_EQ(format_memory(1025), "1025B");
}

}  // namespace
}  // namespace muster
