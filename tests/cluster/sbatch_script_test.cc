// The batch scripts mean to a real Slurm what they are meant to.
#include "slurm/sbatch_script.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "launcher/task_spec.h"
#include "tests/support/emulated_cluster.h"
#include "tests/support/sample_site.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::ProgramResult;

class SbatchScriptClusterTest : public testing::ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    if (IsSkipped()) return;
    // What sbatch takes for a replacement, and what a shell takes for the end of a command.
    run_ = cluster().shared() / "50%j;x" / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(run_ / "logs");
  }

  // The task's script, with `muster` being a shell script of these commands. Returns its path.
  std::string script(const std::string& task, const std::string& commands,
                     const slurm::SubmitOptions& options = {}) {
    const fs::path program = run_ / "muster";
    std::ofstream(program) << "#!/bin/sh\n" << commands;
    fs::permissions(program, fs::perms::owner_all);
    TaskFileContext context;
    context.file = (run_ / "task.yaml").string();
    const auto spec = parse_task("task_name: t\nentry_point: prog\n" + task, context);
    EXPECT_TRUE(spec) << spec.error().message;
    const SiteProfile site = testing::sample_site();
    PlanOptions plan_options;
    plan_options.slurm_site = &site;
    const auto plan = make_plan(spec.value_or(TaskSpec{}), plan_options);
    EXPECT_TRUE(plan) << plan.error().message;
    if (!plan) return "";
    const auto text = slurm::sbatch_script(*plan, {"muster:t-0123abcd", run_, program.string()}, options);
    EXPECT_TRUE(text) << text.error().message;
    const fs::path file = run_ / "script.sh";
    std::ofstream(file) << text.value_or("");
    return file.string();
  }

  // Runs the job to its end and returns what it wrote into its log.
  std::string log_of(const std::string& script_file) {
    testing::ProgramOptions options;
    options.set = {{"ODD", "a,b=\"c\"\nd"}};
    const ProgramResult job =
        cluster().on_controller({"sbatch", "--parsable", "--wait", script_file}, options);
    EXPECT_EQ(job.exit_code, 0) << job;
    const std::string id = job.out.substr(0, job.out.find('\n'));
    std::ostringstream text;
    text << std::ifstream(run_ / "logs" / ("slurm-" + id + ".log")).rdbuf();
    return text.str();
  }

  fs::path run_;
};

const std::string kEverything =
    "num_workers: 2\ngpu_per_worker: 2\nresources: {gpu_type: ampere, cpus_per_worker: 3, memory_per_worker: "
    "1G, "
    "time_limit: 1d2h30m, exclude: [\"n[3-4]\"]}\nschedule: {priority: high}\n";

TEST_F(SbatchScriptClusterTest, IsAccepted) {
  for (const std::string task :
       {"", "num_workers: 6\n", "gpu_per_worker: 4\nschedule: {priority: low}\n",
        "num_workers: 3\nresources: {cpus_per_worker: 4, memory_per_worker: 3G}\n", kEverything.c_str()}) {
    const ProgramResult result = cluster().on_controller({"sbatch", "--test-only", script(task, "")});
    EXPECT_EQ(result.exit_code, 0) << task << result;
    EXPECT_THAT(result.err, HasSubstr(" to start at ")) << task;
  }
}

TEST_F(SbatchScriptClusterTest, EveryOptionArrives) {
  slurm::SubmitOptions options;
  options.hold = true;
  options.dependency = "singleton";
  options.begin = "2030-01-01T00:00:00";
  const ProgramResult job =
      cluster().on_controller({"sbatch", "--parsable", script(kEverything, "", options)});
  ASSERT_EQ(job.exit_code, 0) << job;
  const std::string id = job.out.substr(0, job.out.find('\n'));
  const std::string shown = cluster().on_controller({"scontrol", "--oneliner", "show", "job", id}).out;
  cluster().on_controller({"scancel", id});
  for (const std::string& field : std::vector<std::string>{
           "JobName=t", "Comment=muster:t-0123abcd", "QOS=high", "Account=research", "Nice=10",
           "Partition=batch", "TimeLimit=1-02:30:00", "NumNodes=2", "NumTasks=2", "CPUs/Task=3", "mem=2G",
           "gres/gpu=4", "TresPerNode=gres:gpu:a100:2", "ExcNodeList=n[3-4]", "Reason=JobHeldUser",
           "Dependency=singleton", "EligibleTime=2030-01-01T00:00:00", "Requeue=1",
           "WorkDir=" + run_.string()}) {
    EXPECT_THAT(shown, HasSubstr(field));
  }
}

TEST_F(SbatchScriptClusterTest, TheSupervisorTakesTheShellsPlace) {
  EXPECT_EQ(
      log_of(script("num_workers: 2\n", "echo \"$1 in $(pwd), $# words: $2; $SLURM_TASKS_PER_NODE\"\n")),
      "supervise in " + run_.string() + ", 2 words: " + run_.string() + "; 2\n");
}

TEST_F(SbatchScriptClusterTest, WorkersWithoutGpusShareNodesWhole) {
  EXPECT_EQ(log_of(script("num_workers: 5\nranks_per_worker: 2\nresources: {cpus_per_worker: 2}\n",
                          "echo $SLURM_TASKS_PER_NODE $SLURM_JOB_CPUS_PER_NODE\n")),
            "2(x2),1 4(x2),2\n");
}

TEST_F(SbatchScriptClusterTest, StepsWithMoreRanksThanWorkersHaveTheirGpus) {
  EXPECT_EQ(log_of(script("num_workers: 2\ngpu_per_worker: 2\nresources: {gpu_type: ampere}\n",
                          "srun --overlap --mpi=none -N2 -n4 --ntasks-per-node=2 --cpus-per-task=1 "
                          "--gres=gpu:a100:2 sh -c 'echo $SLURM_NODEID $CUDA_VISIBLE_DEVICES' | sort\n")),
            "0 0,1\n0 0,1\n1 0,1\n1 0,1\n");
}

TEST_F(SbatchScriptClusterTest, TheSubmittersEnvironmentArrivesWhole) {
  EXPECT_EQ(log_of(script("", "echo \"$ODD\"\n")), "a,b=\"c\"\nd\n");
}

}  // namespace
}  // namespace muster
