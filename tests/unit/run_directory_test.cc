#include "launcher/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "launcher/run_index.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/run_fixture.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using testing::FaultyFileOps;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::RunFixture;

unsigned mode_of(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777u : 0;
}

std::size_t entries_in(const fs::path& path) {
  if (!fs::exists(path)) return 0;
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

TEST(RunDirectory, IsCreatedWhole) {
  RunFixture fixture;
  const auto run = create_run(fixture.plan(), "task_name: mnist\n");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_THAT(run->run_id, MatchesRegex("mnist-[0-9a-f]{8}"));
  EXPECT_EQ(run->path, fixture.root() / run->run_id);
  EXPECT_EQ(read_text_file(run->task()).value(), "task_name: mnist\n");
  EXPECT_EQ(mode_of(run->task()), 0600u);
  EXPECT_EQ(mode_of(run->channel_key()), 0600u);
  EXPECT_THAT(read_text_file(run->channel_key()).value(), MatchesRegex("[0-9a-f]{64}\n"));
  EXPECT_THAT(read_text_file(run->plan()).value(), HasSubstr("\"world_size\": 2"));
  EXPECT_TRUE(fs::is_directory(run->checkpoints()));
  EXPECT_EQ(entries_in(fixture.root()), 1u);

  const auto info = read_run_info(*run);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->run_id, run->run_id);
  EXPECT_EQ(info->task_name, "mnist");
  EXPECT_EQ(info->task_file, "/tasks/mnist.yaml");
  EXPECT_EQ(info->fingerprint, fixture.plan().result_fingerprint);
  EXPECT_GT(info->created_unix_s, 0);
}

TEST(RunDirectory, RunsHaveKeysAndIdsOfTheirOwn) {
  RunFixture fixture;
  const RunDirectory first = fixture.create();
  const RunDirectory second = fixture.create();
  EXPECT_NE(first.run_id, second.run_id);
  EXPECT_NE(read_text_file(first.channel_key()).value(), read_text_file(second.channel_key()).value());
}

// Whichever call fails, the run is there with its entry, or nothing is: no debris, no entry.
TEST(RunDirectory, IsCreatedWholeOrNotAtAll) {
  int calls = 0;
  {
    RunFixture fixture;
    FaultyFileOps ops;
    ASSERT_TRUE(create_run(fixture.plan(), "text", ops));
    calls = ops.calls();
  }
  int failures = 0;
  for (int at_call = 1; at_call <= calls; ++at_call) {
    SCOPED_TRACE(at_call);
    RunFixture fixture;
    FaultyFileOps ops(FaultyFileOps::Mode::kErrorOnce, at_call, ENOSPC);
    const auto run = create_run(fixture.plan(), "text", ops);
    const std::size_t expected = run ? 1 : 0;
    EXPECT_EQ(entries_in(fixture.root()), expected);
    EXPECT_EQ(indexed_runs().value().size(), expected);
    EXPECT_EQ(find_run(fixture.plan()).value().has_value(), run.has_value());
    if (run) continue;
    ++failures;
    EXPECT_EQ(run.error().code, ErrorCode::kNoSpace);
  }
  EXPECT_GT(failures, 20);  // but for a few calls whose failure harms nothing, such as closing a directory
}

void set_created(const RunDirectory& run, double created_unix_s) {
  auto info = nlohmann::json::parse(read_text_file(run.run_info()).value());
  info["created_unix_s"] = created_unix_s;
  std::ofstream(run.run_info()) << info;
}

TEST(RunDirectory, FindsTheNewestRunOfTheTask) {
  RunFixture fixture;
  EXPECT_FALSE(find_run(fixture.plan()).value());  // not even the root is there
  const RunDirectory first = fixture.create();
  const RunDirectory second = fixture.create();
  fixture.create("mnist-large");                            // another task whose ids begin alike
  fs::create_directory(fixture.root() / "mnist-00000000");  // no run directory
  fs::create_directory(fixture.root() / ".mnist-00000000.new");
  set_created(first, 2000);
  set_created(second, 1000);
  EXPECT_EQ(find_run(fixture.plan()).value()->run_id, first.run_id);
  set_created(second, 3000);
  EXPECT_EQ(find_run(fixture.plan()).value()->run_id, second.run_id);
  EXPECT_FALSE(find_run(fixture.plan("other")).value());
}

TEST(RunDirectory, ADamagedRunIsNamedNotIgnored) {
  RunFixture fixture;
  const RunDirectory run = fixture.create();
  for (const char* text :
       {"", "{", "[]", R"({"run": "x"})", R"({"run": 1, "task": "x", "task_file": "x"})"}) {
    std::ofstream(run.run_info()) << text;
    const auto info = read_run_info(run);
    ASSERT_FALSE(info) << text;
    EXPECT_EQ(info.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(info.error().message, HasSubstr(run.run_info().string()));
    EXPECT_FALSE(find_run(fixture.plan()));  // otherwise a new run would silently begin from nothing
  }
}

TEST(RunDirectory, DifferencesOfFingerprints) {
  const Fingerprint before{{"seed", "1"}, {"steps", "10"}, {"model", "mlp"}};
  EXPECT_TRUE(fingerprint_differences(before, before).empty());
  const auto differences =
      fingerprint_differences(before, {{"model", "mlp"}, {"seed", "2"}, {"dropout", "0.5"}});
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_EQ(differences[0].key + differences[0].before + differences[0].now, "seed12");
  EXPECT_EQ(differences[1].key + differences[1].before + differences[1].now, "steps10");
  EXPECT_EQ(differences[2].key + differences[2].before + differences[2].now, "dropout0.5");
}

// A run that had begun once asked for --accept-changes when the checkpoint it had begun with was removed.
TEST(RunDirectory, ACheckpointToBeginWithThatIsGoneIsNoDifference) {
  const Fingerprint before{{"trainer.init_from", "/a"}, {kInitFromIdentity, "abc"}};
  EXPECT_TRUE(fingerprint_differences(before, {{"trainer.init_from", "/a"}}).empty());
  EXPECT_EQ(fingerprint_differences(before, {{"trainer.init_from", "/b"}}).size(), 2u);
  EXPECT_EQ(fingerprint_differences(before, {}).size(), 2u);
  const auto another =
      fingerprint_differences(before, {{"trainer.init_from", "/a"}, {kInitFromIdentity, "def"}});
  ASSERT_EQ(another.size(), 1u);
  EXPECT_EQ(another[0].key + another[0].before + another[0].now, "trainer.init_from.sha256abcdef");

  RunFixture fixture;
  Plan plan = fixture.plan();
  plan.result_fingerprint = before;
  const RunDirectory run = create_run(plan, "t\n").value();
  plan.result_fingerprint = {{"trainer.init_from", "/a"}};
  ASSERT_TRUE(update_run(run, plan, "t\n"));
  EXPECT_EQ(read_run_info(run)->fingerprint, before) << "what it began with is still known";
}

TEST(RunDirectory, AnUpdateKeepsTheRunAndTakesTheNewTask) {
  RunFixture fixture;
  const RunDirectory run = fixture.create();
  const double created = read_run_info(run)->created_unix_s;
  Plan changed = fixture.plan();
  changed.result_fingerprint = {{"trainer.seed", "2"}};
  ASSERT_TRUE(update_run(run, changed, "changed\n"));
  EXPECT_EQ(read_text_file(run.task()).value(), "changed\n");
  EXPECT_EQ(mode_of(run.task()), 0600u);
  const auto info = read_run_info(run);
  EXPECT_EQ(info->run_id, run.run_id);
  EXPECT_EQ(info->created_unix_s, created);
  EXPECT_EQ(info->fingerprint, changed.result_fingerprint);
}

}  // namespace
}  // namespace muster
