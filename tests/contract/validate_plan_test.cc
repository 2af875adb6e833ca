// `muster validate` and `muster plan` as a user meets them: exit codes, output, and nothing started or
// written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/run_contract.h"
#include "tests/support/command.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Outcome = testing::CommandResult;

class ValidatePlan : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(work() / name) << text;
    return name;
  }

  // In the test's own folder, with the state directory beside it.
  Outcome muster(const std::string& arguments) const {
    return testing::run_command({"sh", "-c",
                                 "cd '" + work().string() + "' && XDG_STATE_HOME='" + state().string() +
                                     "' '" + testing::built_program("muster") + "' " + arguments +
                                     " </dev/null"});
  }

  fs::path work() const { return directory_.path() / "work"; }
  fs::path state() const { return directory_.path() / "state"; }

  void SetUp() override { fs::create_directory(work()); }

  testing::TemporaryDirectory directory_;
};

const std::string kGood = "task_name: good\nentry_point: true\n";

TEST_F(ValidatePlan, ValidateSaysOkForGoodFiles) {
  write("a.yaml", kGood);
  write("b.json", R"({"task_name": "b", "entry_point": "true"})");
  const Outcome outcome = muster("validate a.yaml b.json");
  EXPECT_EQ(outcome.exit_code, contract::kMusterOk);
  EXPECT_EQ(outcome.output, "a.yaml: ok\nb.json: ok\n");
  EXPECT_EQ(outcome.errors, "");
}

TEST_F(ValidatePlan, ValidateNamesAllErrorsOfAllFiles) {
  write("a.yaml", "task_name: a\nentry_point: true\nnum_workers: 0\nseed: 1\n");
  write("b.yaml", kGood);
  write("c.yaml", "task_name: [\n");
  const Outcome outcome = muster("validate a.yaml b.yaml c.yaml");
  EXPECT_EQ(outcome.exit_code, contract::kMusterBadTaskFile);
  EXPECT_EQ(outcome.output, "b.yaml: ok\n");
  EXPECT_THAT(outcome.errors, HasSubstr("muster: a.yaml:3:14: num_workers: found '0'"));
  EXPECT_THAT(outcome.errors,
              HasSubstr("muster: a.yaml:4:1: unknown key 'seed'; did you mean 'trainer.seed'?"));
  EXPECT_THAT(outcome.errors, HasSubstr("muster: c.yaml:2:1: not valid YAML"));
}

TEST_F(ValidatePlan, ExitCodesTellWhatWentWrong) {
  write("good.yaml", kGood);
  write("image.yaml", kGood + "image: /x.sqsh\n");
  write("hosts", "node1 slots=none\n");
  EXPECT_EQ(muster("validate nothing.yaml").exit_code, contract::kMusterNotFound);
  EXPECT_EQ(muster("plan nothing.yaml").exit_code, contract::kMusterNotFound);
  EXPECT_EQ(muster("validate").exit_code, contract::kMusterUsage);
  EXPECT_EQ(muster("validate --frobnicate good.yaml").exit_code, contract::kMusterUsage);
  EXPECT_EQ(muster("plan good.yaml good.yaml").exit_code, contract::kMusterUsage);
  EXPECT_EQ(muster("plan good.yaml --format xml").exit_code, contract::kMusterUsage);
  EXPECT_EQ(muster("plan good.yaml --format sbatch --hostfile hosts").exit_code, contract::kMusterUsage);
  EXPECT_EQ(muster("plan image.yaml --format sbatch").exit_code, contract::kMusterUnavailable);
  EXPECT_EQ(muster("plan good.yaml --hostfile hosts").exit_code, contract::kMusterBadTaskFile);
  EXPECT_EQ(muster("plan good.yaml --hostfile nothing").exit_code, contract::kMusterNotFound);
  EXPECT_EQ(muster("validate image.yaml").exit_code, contract::kMusterOk);
  const Outcome refused = muster("plan image.yaml");
  EXPECT_EQ(refused.exit_code, contract::kMusterUnavailable);
  EXPECT_THAT(refused.errors, StartsWith("muster: image.yaml:3:1: image: found '/x.sqsh'"));
}

// What an unset variable of a script leaves: `--hostfile "$HOSTS"` once ran the task on this machine instead.
TEST_F(ValidatePlan, WhatIsEmptyIsRefusedByName) {
  write("good.yaml", kGood);
  const std::string runs =
      "muster: RUN: found an empty argument; allowed: a run id, a unique beginning of one past the task's "
      "name, "
      "a task's name (its newest run) or a run directory\n";
  const std::string files = "muster: FILE: found an empty argument; allowed: the path of a task file\n";
  const std::string hosts =
      "muster: --hostfile: found an empty text; allowed: hosts to run on, one `name slots=N` a line\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"validate ''", files},
      {"validate good.yaml ''", files},
      {"plan ''", files},
      {"run ''", files},
      {"status ''", runs},
      {"logs ''", runs},
      {"rm ''", runs},
      {"rm '' --force", runs},
      {"checkpoint now ''", runs},
      {"checkpoint list ''",
       "muster: ACTION DIR: found an empty argument; allowed: list, show, verify or hash, then a checkpoint, "
       "a "
       "directory of checkpoints, a run directory, a run id or a task's name\n"},
      {"plan good.yaml --hostfile ''", hosts},
      {"run good.yaml --hostfile ''", hosts},
      {"run good.yaml --rsh-agent ''",
       "muster: --rsh-agent: found an empty text; allowed: program to start daemons on hosts with (instead "
       "of "
       "ssh)\n"},
      {"plan good.yaml --format ''",
       "muster: --format: found an empty text; allowed: text, json or sbatch\n"},
      {"''", "muster: unknown command ''; `muster --help` lists them\n"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = muster(arguments);
    EXPECT_EQ(outcome.exit_code, contract::kMusterUsage) << arguments;
    EXPECT_EQ(outcome.errors, message) << arguments;
    EXPECT_EQ(outcome.output, "") << arguments;
  }
  EXPECT_FALSE(fs::exists(state()));
}

TEST_F(ValidatePlan, HelpIsThere) {
  for (const char* command : {"validate --help", "plan --help", "plan -h"}) {
    const Outcome outcome = muster(command);
    EXPECT_EQ(outcome.exit_code, contract::kMusterOk) << command;
    EXPECT_THAT(outcome.output, StartsWith("usage: muster ")) << command;
  }
}

TEST_F(ValidatePlan, PlanShowsAndStartsNothing) {
  write("task.yaml",
        "task_name: t\nentry_point: touch\nargs: [started]\nnum_workers: 2\nenv: {MY_TOKEN: tip-top}\n"
        "schedule: {priority: high}\n");
  write("hosts", "node1\nnode2 slots=8\n");
  const Outcome text = muster("plan task.yaml");
  EXPECT_EQ(text.exit_code, contract::kMusterOk) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("MY_TOKEN=***"));
  EXPECT_THAT(text.output, HasSubstr("touch started"));
  EXPECT_THAT(text.output, HasSubstr("schedule.priority"));
  const Outcome json = muster("plan --format json --hostfile hosts task.yaml");
  EXPECT_EQ(json.exit_code, contract::kMusterOk) << json.errors;
  EXPECT_THAT(text.output + json.output, Not(HasSubstr("tip-top")));
  const auto plan = nlohmann::json::parse(json.output, nullptr, false);
  ASSERT_TRUE(plan.is_object()) << json.output;
  EXPECT_EQ(plan["world_size"], 2);
  EXPECT_EQ(plan["placement"][1]["name"], "node2");
  EXPECT_EQ(plan["placement"][1]["ranks"], 1);
  EXPECT_EQ(plan["checkpoint_root"], (state() / "muster" / "work").string());
  EXPECT_FALSE(fs::exists(work() / "started"));
  EXPECT_FALSE(fs::exists(state()));
}

TEST_F(ValidatePlan, PlanShowsTheBatchScriptAlone) {
  write("task.yaml",
        "task_name: t\nentry_point: touch\nargs: [started]\ncheckpoint_path: /runs\nresources: {time_limit: "
        "unlimited}\n");
  const Outcome outcome = muster("plan task.yaml --format sbatch");
  EXPECT_EQ(outcome.exit_code, contract::kMusterOk) << outcome.errors;
  EXPECT_THAT(outcome.output,
              StartsWith("#!/bin/sh\n#SBATCH --job-name=t\n#SBATCH --comment=muster:RUN_ID\n"));
  EXPECT_THAT(outcome.output, HasSubstr("/bin/muster supervise /runs/RUN_ID\n"));
  EXPECT_THAT(outcome.errors, StartsWith("muster: task.yaml:5:13: resources.time_limit: "));
  EXPECT_FALSE(fs::exists(work() / "started"));
  EXPECT_FALSE(fs::exists(state()));
}

TEST_F(ValidatePlan, RunRefusesAMissingProgramBeforeItStarts) {
  write("task.yaml", "task_name: t\nentry_point: ./nothing\n");
  const Outcome outcome = muster("run task.yaml");
  EXPECT_EQ(outcome.exit_code, contract::kMusterNotFound);
  EXPECT_EQ(outcome.errors,
            "muster: task.yaml:2:1: entry_point: no file " + (work() / "nothing").string() + "\n");
  EXPECT_FALSE(fs::exists(state()));
}

TEST_F(ValidatePlan, RunRefusesAMissingCheckpointToBeginWithBeforeItStarts) {
  write("task.yaml",
        "task_name: t\nentry_point: muster-train\ndata_path: /\ntrainer:\n  epochs: 1\n"
        "  init_from: /nowhere\n");
  const Outcome outcome = muster("run task.yaml");
  EXPECT_EQ(outcome.exit_code, contract::kMusterNotFound);
  EXPECT_EQ(
      outcome.errors,
      "muster: task.yaml:6:3: trainer.init_from: /nowhere is not there; allowed: a checkpoint (step-…), or "
      "a directory of checkpoints\n");
  EXPECT_FALSE(fs::exists(state()));
}

}  // namespace
}  // namespace muster
