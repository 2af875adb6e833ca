#include "slurm/parsable_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <random>

#include "tests/unit/recorded_output.h"

namespace muster::slurm {
namespace {

using ::testing::HasSubstr;

constexpr std::array<std::string_view, 2> kQos{"Name", "Priority"};
constexpr std::array<std::string_view, 2> kJob{"JobID", "State"};

TEST(ParsableTable, ReadsWhatSacctmgrPrints) {
  const auto table = parse_parsable_table(testing::recorded_output("qos_gpus/sacctmgr_qos.txt"), kQos);
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_EQ(table->rows(), 3U);
  EXPECT_EQ(table->at(0, "Name"), "normal");
  EXPECT_EQ(table->at(2, "PREEMPT"), "low,normal");
  EXPECT_EQ(table->at(1, "GraceTime"), "00:00:15");
  EXPECT_EQ(table->at(1, "MinTRES"), "");
  EXPECT_FALSE(table->has("Colour"));
  EXPECT_EQ(table->at(1, "Colour"), "");
}

TEST(ParsableTable, ABannerIsNoHeader) {
  const auto table = parse_parsable_table("Welcome | to the cluster\n\nJOBID|STATE\r\n7|RUNNING\r\n", kJob);
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_EQ(table->rows(), 1U);
  EXPECT_EQ(table->at(0, "State"), "RUNNING");
}

TEST(ParsableTable, TheLastColumnMayHoldBars) {
  const auto table = parse_parsable_table("JobID|State|Comment\n7|RUNNING|a|b=c|\n", kJob);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->at(0, "Comment"), "a|b=c|");
}

TEST(ParsableTable, OtherTextsAreRefused) {
  for (const char* text : {"", "Name\n", "sacctmgr: error: Problem talking to the database\n"}) {
    const auto table = parse_parsable_table(text, kQos);
    ASSERT_FALSE(table) << text;
    EXPECT_EQ(table.error().message, "no line names the columns Name, Priority");
  }
  const auto cut = parse_parsable_table("Name|Priority|X\na|1|\nb|\n", kQos);
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message, HasSubstr("line 3 has 2 fields where the header has 3: b|"));
}

TEST(ParsableTable, WhatIsWrittenIsRead) {
  const unsigned seed = 20260710;
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<std::string>> rows;
    std::string text = "JobID|State|Note\n";
    for (int row = 0; row < 5; ++row) {
      std::vector<std::string> fields(3);
      for (int column = 0; column < 3; ++column) {
        for (auto i = random() % 6; i > 0; --i)
          fields[column] += "a |,=("[column == 2 ? random() % 6 : random() % 2];
      }
      fields[0] += "1";
      rows.push_back(fields);
      text += fields[0] + "|" + fields[1] + "|" + fields[2] + "\n";
    }
    const auto table = parse_parsable_table(text, kJob);
    ASSERT_TRUE(table) << text;
    ASSERT_EQ(table->rows(), rows.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      EXPECT_EQ(table->at(row, "JobID"), rows[row][0]) << text;
      EXPECT_EQ(table->at(row, "State"), rows[row][1]) << text;
      EXPECT_EQ(table->at(row, "Note"), rows[row][2]) << text;
    }
  }
}

}  // namespace
}  // namespace muster::slurm
