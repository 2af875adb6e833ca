#include "common/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/file_ops.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

using nlohmann::json;
using testing::TemporaryDirectory;

void append_raw(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

TEST(Journal, KeepsEventsInOrderAndStampsThem) {
  TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  {
    auto writer = JournalWriter::open(path);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->append({{"event", "one"}}, true));
    ASSERT_TRUE(writer->append({{"event", "two"}, {"time", "then"}}, false));
  }
  const auto contents = read_journal(path);
  ASSERT_TRUE(contents);
  EXPECT_FALSE(contents->torn);
  ASSERT_EQ(contents->events.size(), 2u);
  EXPECT_EQ(contents->events[0].at("event"), "one");
  EXPECT_EQ(contents->events[0].at("time").get<std::string>().size(),
            std::string("2026-03-01T12:34:56.789Z").size());
  EXPECT_EQ(contents->events[1].at("time"), "then");
}

TEST(Journal, ReaderLeavesATornLastLineOutAndTheNextWriterCutsItOff) {
  for (const std::string_view torn : {"{\"event\":\"ha", "{\"event\":\"ha\n", "garbage\n", "\xff\xfe"}) {
    TemporaryDirectory directory;
    const auto path = directory.path() / "journal.jsonl";
    append_raw(path, "{\"event\":\"whole\"}\n");
    append_raw(path, torn);
    auto contents = read_journal(path);
    ASSERT_TRUE(contents) << contents.error().message;
    EXPECT_TRUE(contents->torn);
    EXPECT_EQ(contents->events.size(), 1u);

    auto writer = JournalWriter::open(path);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->append({{"event", "next"}}, false));
    contents = read_journal(path);
    ASSERT_TRUE(contents) << contents.error().message;
    EXPECT_FALSE(contents->torn);
    ASSERT_EQ(contents->events.size(), 2u);
    EXPECT_EQ(contents->events[1].at("event"), "next");
  }
}

TEST(Journal, DamageInTheMiddleIsNamed) {
  TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  append_raw(path, "{\"event\":\"a\"}\n[1]\n{\"event\":\"b\"}\n");
  const auto contents = read_journal(path);
  ASSERT_FALSE(contents);
  EXPECT_EQ(contents.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(contents.error().message, ::testing::HasSubstr("journal.jsonl:2: not a JSON object"));
}

TEST(Journal, TextThatIsNotUtf8IsStored) {
  TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  auto writer = JournalWriter::open(path);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->append({{"event", "line"}, {"text", "caf\xe9"}}, false));
  const auto contents = read_journal(path);
  ASSERT_TRUE(contents);
  EXPECT_EQ(contents->events.at(0).at("text"), "caf\xEF\xBF\xBD");
}

}  // namespace
}  // namespace muster
