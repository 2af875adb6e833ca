// What is missing on this machine is told before anything starts.
#include "launcher/preflight.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

class Preflight : public ::testing::Test {
 protected:
  std::string make_file(const std::string& name, fs::perms permissions) const {
    const fs::path path = directory_.path() / name;
    std::ofstream(path) << "#!/bin/sh\n";
    fs::permissions(path, permissions);
    return path.string();
  }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

  static Plan plan(std::vector<std::string> argv) {
    Plan plan;
    plan.argv = std::move(argv);
    return plan;
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(Preflight, PassesWhatCanRun) {
  Plan good = plan({make_file("program", fs::perms::owner_all)});
  good.data_path = directory_.path().string();
  EXPECT_TRUE(check_inputs(good));
  EXPECT_TRUE(check_inputs(plan({"sh"})));
  EXPECT_TRUE(check_inputs(plan({"python3", make_file("s.py", fs::perms::owner_read)})));
}

TEST_F(Preflight, NamesEverythingThatIsMissing) {
  Plan bad = plan({path("program")});
  bad.data_path = path("data");
  const Status status = check_inputs(bad);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(status.error().message,
            "entry_point: no file " + path("program") + "\ndata_path: nothing at " + path("data"));
}

TEST_F(Preflight, WantsAnExecutableOrAScriptThatIsThere) {
  const std::string plain = make_file("plain", fs::perms::owner_read);
  const Status not_executable = check_inputs(plan({plain}));
  ASSERT_FALSE(not_executable);
  EXPECT_EQ(not_executable.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(not_executable.error().message, "entry_point: " + plain + " cannot be executed; `chmod +x` it");
  const Status no_script = check_inputs(plan({"python3", path("s.py")}));
  ASSERT_FALSE(no_script);
  EXPECT_EQ(no_script.error().message, "entry_point: no file " + path("s.py"));
}

TEST_F(Preflight, LooksOnTheTasksOwnPath) {
  make_file("my-program", fs::perms::owner_all);
  Plan found = plan({"my-program"});
  const Status before = check_inputs(found);
  ASSERT_FALSE(before);
  EXPECT_EQ(before.error().message, "entry_point: no command 'my-program' on PATH");
  found.environment.push_back({"PATH", "/nowhere:" + directory_.path().string(), false});
  EXPECT_TRUE(check_inputs(found));
}

// The trainer once found out, after the run had been made and started.
TEST_F(Preflight, WantsTheCheckpointToBeginWith) {
  Plan task = plan({"sh"});
  task.init_from = path("other");
  task.places = {{"trainer.init_from", "task.yaml:7:3"}};
  const std::string where = "task.yaml:7:3: trainer.init_from: ";
  Status status = check_inputs(task);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(status.error().message, where + path("other") +
                                        " is not there; allowed: a checkpoint (step-…), or a directory of "
                                        "checkpoints");
  fs::create_directory(path("other"));
  status = check_inputs(task);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, where + path("other") + " holds no committed checkpoint");
  fs::create_directory(path("other/step-000000000010"));
  std::ofstream(path("other/step-000000000010/COMMITTED")) << "x";
  status = check_inputs(task);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(status.error().message.starts_with(where + path("other") + " holds no sound checkpoint: "));
  // A run that has one of its own does not need it, and what other hosts have cannot be seen.
  EXPECT_TRUE(check_inputs(task, true));
  task.hosts = {{"node1", 1}};
  EXPECT_TRUE(check_inputs(task));
}

TEST_F(Preflight, LeavesOtherHostsAlone) {
  Plan elsewhere = plan({path("program")});
  elsewhere.hosts = {{"node1", 1}};
  EXPECT_TRUE(check_inputs(elsewhere));
}

TEST_F(Preflight, ACheckpointPathIsADirectoryOrCanBecomeOne) {
  Plan task = plan({"sh"});
  task.checkpoint_root = path("a/b/c");
  EXPECT_TRUE(check_inputs(task));
  task.checkpoint_root = make_file("file", fs::perms::owner_all) + "/below";
  const Status status = check_inputs(task);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(status.error().message, "checkpoint_path: " + path("file") + " is no directory");
}

}  // namespace
}  // namespace muster
