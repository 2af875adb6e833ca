#include "launcher/run_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/run_fixture.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::RunFixture;

TEST(RunIndex, LivesInTheStateDirectory) {
  RunFixture fixture;
  EXPECT_EQ(state_directory(), fixture.state() / "muster");
  ::setenv("XDG_STATE_HOME", "relative", 1);  // the standard says: to be ignored
  ::setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(state_directory(), "/home/someone/.local/state/muster");
  ::unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(state_directory(), "/home/someone/.local/state/muster");
}

TEST(RunIndex, ListsRunsNewestFirstAndKnowsTheMissing) {
  RunFixture fixture;
  EXPECT_TRUE(indexed_runs().value().empty());
  const RunDirectory first = fixture.create("first");
  const RunDirectory second = fixture.create("second");
  std::ofstream(fixture.state() / "muster" / "runs" / "damaged.json") << "{";
  fs::remove_all(first.path);
  const auto runs = indexed_runs();
  ASSERT_TRUE(runs);
  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ(runs->at(0).run.run_id, second.run_id);
  EXPECT_EQ(runs->at(0).run.path, second.path);
  EXPECT_FALSE(runs->at(0).missing);
  EXPECT_EQ(runs->at(1).task_name, "first");
  EXPECT_TRUE(runs->at(1).missing);

  // Another run in the place of a lost one does not bring the lost one back.
  fs::copy(second.path, first.path, fs::copy_options::recursive);
  EXPECT_TRUE(indexed_runs().value().at(1).missing);

  ASSERT_TRUE(forget_run(first.run_id));
  ASSERT_TRUE(forget_run(first.run_id));
  EXPECT_EQ(indexed_runs().value().size(), 1u);
}

TEST(RunIndex, ResolvesIdsPrefixesTaskNamesAndDirectories) {
  RunFixture fixture;
  const RunDirectory older = fixture.create("mnist");
  const RunDirectory newer = fixture.create("mnist");
  const RunDirectory other = fixture.create("digits");
  EXPECT_EQ(resolve_run(older.run_id).value().path, older.path);
  EXPECT_EQ(resolve_run("mnist").value().run_id, newer.run_id);
  EXPECT_EQ(resolve_run("digits-").value().run_id, other.run_id);
  EXPECT_FALSE(resolve_run("dig")) << "part of a task's name may be meant for another task";
  EXPECT_EQ(resolve_run(other.path.string()).value().run_id, other.run_id);
  EXPECT_EQ(resolve_run(other.path.string() + "/").value().path, other.path);
  const auto ambiguous = resolve_run("mnist-");
  ASSERT_FALSE(ambiguous);
  EXPECT_EQ(ambiguous.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(ambiguous.error().message, HasSubstr(older.run_id));
  EXPECT_THAT(ambiguous.error().message, HasSubstr(newer.run_id));

  fs::remove_all(newer.path);  // the newest that is still there
  EXPECT_EQ(resolve_run("mnist").value().run_id, older.run_id);
  EXPECT_EQ(resolve_run(newer.run_id).value().run_id, newer.run_id);
}

TEST(RunIndex, AnUnknownNameGetsTheNearestRuns) {
  RunFixture fixture;
  const auto nothing = resolve_run("x");
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message, HasSubstr("no runs are known yet"));
  const RunDirectory run = fixture.create("mnist");
  for (int i = 0; i < 6; ++i) fixture.create("zebra");
  for (const char* name : {"mnits", "mnist-zz", ""}) {
    const auto unknown = resolve_run(name);
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
    if (name[0] == '\0') continue;
    EXPECT_THAT(unknown.error().message, HasSubstr("nearest of 7 known: " + run.run_id));
  }
}

}  // namespace
}  // namespace muster
