// The batch script: which option a request becomes, and values that no line of it can hold. Whole scripts:
// tests/golden/sbatch_*.sh.
#include "slurm/sbatch_script.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace muster::slurm {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Plan plan() {
  Plan plan;
  plan.grace = seconds(30);
  plan.allocation.emplace();
  plan.allocation->job_name = "t";
  plan.allocation->workers = 2;
  plan.allocation->time_limit = hours(1);
  return plan;
}

JobIdentity job() { return {"muster:t-0123abcd", "/runs/t-0123abcd", "/opt/muster"}; }

std::string script_of(const Plan& plan, const JobIdentity& identity = job(),
                      const SubmitOptions& options = {}) {
  const auto script = sbatch_script(plan, identity, options);
  EXPECT_TRUE(script) << script.error().message;
  return script.value_or("");
}

std::string refusal_of(const Plan& plan, const JobIdentity& identity = job(),
                       const SubmitOptions& options = {}) {
  const auto script = sbatch_script(plan, identity, options);
  EXPECT_FALSE(script) << script.value_or("");
  if (script) return "";
  EXPECT_EQ(script.error().code, ErrorCode::kInvalidArgument);
  return script.error().message;
}

TEST(SbatchScript, IsOptionsAndThenTheSupervisor) {
  const std::string script = script_of(plan());
  EXPECT_THAT(script, StartsWith("#!/bin/sh\n#SBATCH --job-name=t\n#SBATCH --comment=muster:t-0123abcd\n"));
  EXPECT_THAT(script, EndsWith("\n\nexec /opt/muster supervise /runs/t-0123abcd\n"));
}

TEST(SbatchScript, SharedNodesCountMemoryByCpus) {
  Plan with = plan();
  with.allocation->cpus_per_worker = 3;
  with.allocation->memory_bytes = std::uint64_t{1} << 30;
  const std::string script = script_of(with);
  EXPECT_THAT(script,
              HasSubstr("#SBATCH --ntasks=2\n#SBATCH --cpus-per-task=3\n#SBATCH --mem-per-cpu=342M\n"));
  EXPECT_THAT(script, Not(HasSubstr("--nodes")));
  EXPECT_THAT(script, Not(HasSubstr("--mem=")));
  with.allocation->nodes_max = 4;
  EXPECT_THAT(script_of(with),
              HasSubstr("#SBATCH --nodes=1-4\n#SBATCH --use-min-nodes\n#SBATCH --ntasks=2\n"));
}

TEST(SbatchScript, OwnNodesCountEverythingByNode) {
  Plan with = plan();
  with.allocation->node_per_worker = true;
  with.allocation->cpus_per_worker = 8;
  with.allocation->gpus_per_worker = 4;
  with.allocation->gres_type = "a100";
  with.allocation->memory_bytes = (std::uint64_t{1} << 30) + 1;
  EXPECT_THAT(script_of(with),
              HasSubstr("#SBATCH --nodes=2\n#SBATCH --ntasks=2\n#SBATCH --ntasks-per-node=1\n"
                        "#SBATCH --cpus-per-task=8\n#SBATCH --mem=1025M\n#SBATCH --gres=gpu:a100:4\n"));
}

TEST(SbatchScript, TheNoticeComesEarlyEnoughAndNotAtOnce) {
  Plan with = plan();
  EXPECT_THAT(script_of(with), HasSubstr("#SBATCH --time=0-01:00:00\n"));
  EXPECT_THAT(script_of(with), HasSubstr("#SBATCH --signal=B:USR1@60\n"));
  with.allocation->time_limit = seconds(90);
  EXPECT_THAT(script_of(with), HasSubstr("#SBATCH --signal=B:USR1@45\n"));
  with.allocation->time_limit = seconds(1);
  EXPECT_THAT(script_of(with), Not(HasSubstr("--signal")));
  with.allocation->time_limit = hours(10'000);
  with.grace = hours(24);
  EXPECT_THAT(script_of(with), HasSubstr("#SBATCH --signal=B:USR1@65535\n"));
}

TEST(SbatchScript, WhatIsNotAskedForIsNotThere) {
  const std::string script = script_of(plan());
  for (const char* option : {"--qos", "--partition", "--account", "--nice", "--constraint", "--exclude",
                             "--gres", "--mem", "--dependency", "--array", "--begin", "--hold"}) {
    EXPECT_THAT(script, Not(HasSubstr(option)));
  }
}

TEST(SbatchScript, PlacesAndSubmissionsBecomeOptions) {
  Plan with = plan();
  with.allocation->place = {"q", "p", "a", -5};
  with.allocation->constraint = "[a|b]*2";
  with.allocation->exclude = {"n[1-2]", "n7"};
  with.allocation->extra_options = {"--licenses=a:1,b", "--exclusive"};
  EXPECT_THAT(
      script_of(with, job(), {true, "afterok:1", "1-9:2", "now+1hour"}),
      HasSubstr("#SBATCH --qos=q\n#SBATCH --partition=p\n#SBATCH --account=a\n#SBATCH --nice=-5\n"
                "#SBATCH --constraint=[a|b]*2\n#SBATCH --exclude=n[1-2],n7\n#SBATCH --dependency=afterok:1\n"
                "#SBATCH --array=1-9:2\n#SBATCH --begin=now+1hour\n#SBATCH --hold\n"));
  EXPECT_THAT(script_of(with),
              HasSubstr("#SBATCH --export=ALL\n#SBATCH --licenses=a:1,b\n#SBATCH --exclusive\n\n"));
}

TEST(SbatchScript, OneLogForAllStartsOfAJobAndOneForEachOfAnArray) {
  JobIdentity odd = job();
  odd.run_directory = "/runs/50%/t";
  EXPECT_THAT(script_of(plan(), odd), HasSubstr("#SBATCH --chdir=/runs/50%/t\n"
                                                "#SBATCH --output=/runs/50%%/t/logs/slurm-%j.log\n"
                                                "#SBATCH --open-mode=append\n"));
  SubmitOptions options;
  options.array = "0-3";
  EXPECT_THAT(script_of(plan(), job(), options), HasSubstr("/logs/slurm-%A_%a.log\n"));
}

TEST(SbatchScript, RefusesValuesThatALineCannotHold) {
  for (const auto& [value, words] :
       std::vector<std::pair<std::string, std::string>>{{"a b", "a space"},
                                                        {"a\nb", "a line break"},
                                                        {"a\rb", "a line break"},
                                                        {"a\tb", "a control character"},
                                                        {"a\"b", "a quotation mark"},
                                                        {"a'b", "a quotation mark"},
                                                        {"a#b", "a #"},
                                                        {"a\\b", "a backslash"}}) {
    std::string shown = value;
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return c < ' '; }, '?');
    Plan with = plan();
    with.allocation->place.qos = value;
    EXPECT_EQ(refusal_of(with),
              fmt::format("--qos: found '{}'; options of a batch script cannot hold {}", shown, words));
    with = plan();
    with.allocation->extra_options = {"--comment=" + value};
    EXPECT_THAT(refusal_of(with), StartsWith("a site's sbatch option: found '--comment=" + shown + "'"));
    JobIdentity identity = job();
    identity.run_directory = "/" + value;
    EXPECT_THAT(refusal_of(plan(), identity), StartsWith("--chdir: found '/" + shown + "'"));
    SubmitOptions options;
    options.dependency = value;
    EXPECT_THAT(refusal_of(plan(), job(), options), StartsWith("--dependency: found '" + shown + "'"));
  }
}

TEST(SbatchScript, TheShellGetsItsWordsQuoted) {
  JobIdentity odd = job();
  odd.muster_executable = "/opt/my tools/it's/$(muster)";
  odd.run_directory = "/runs/$HOME;x";
  EXPECT_THAT(script_of(plan(), odd),
              EndsWith("exec '/opt/my tools/it'\\''s/$(muster)' supervise '/runs/$HOME;x'\n"));
}

}  // namespace
}  // namespace muster::slurm
