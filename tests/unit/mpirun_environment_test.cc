// The environments of an attempt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/mpirun_launcher.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(LauncherEnvironment, KeepsTheUsersSettings) {
  EXPECT_THAT(
      launcher_environment({"PATH=/bin", "OMPI_MCA_btl_tcp_if_include=eth0", "SLURM_CONF=/etc/s", "X="}),
      ElementsAre("PATH=/bin", "OMPI_MCA_btl_tcp_if_include=eth0", "SLURM_CONF=/etc/s", "X="));
}

TEST(LauncherEnvironment, DropsWhatAnEnclosingMpirunLeft) {
  EXPECT_THAT(launcher_environment({"PATH=/bin", "OMPI_COMM_WORLD_RANK=3", "OMPI_MCA_orte_ess_num_procs=4",
                                    "PMIX_NAMESPACE=1", "PMI_RANK=3", "ORTE_X=1"}),
              ElementsAre("PATH=/bin"));
}

TEST(LauncherEnvironment, DropsAnEnclosingSlurmJobButNotItsConfiguration) {
  EXPECT_THAT(launcher_environment({"SLURM_JOB_ID=12", "SLURM_NTASKS=2", "SLURM_CPU_BIND=quiet", "PMI_FD=3",
                                    "SLURM_CONF=/etc/slurm.conf", "HOME=/h"}),
              ElementsAre("SLURM_CONF=/etc/slurm.conf", "HOME=/h"));
}

TEST(LauncherEnvironment, DropsTheRunContractOfAnEnclosingRun) {
  EXPECT_THAT(launcher_environment({"RANK=1", "WORLD_SIZE=4", "MASTER_PORT=1", "MUSTER_RUN_ID=a",
                                    "MUSTER_EVENTS=e", "RANKING=x", "MUSTER_BIN_DIR=/b"}),
              ElementsAre("RANKING=x", "MUSTER_BIN_DIR=/b"));
}

TEST(AttemptEnvironment, HoldsTheContractAndTheTasksOwn) {
  Plan plan;
  plan.environment = {{"A", "with \"quotes\",\nnewline and ="}, {"TOKEN", "s3cret", true}};
  plan.data_path = "/data";
  plan.stop_signal = "SIGUSR2";
  const RunDirectory run{"r-1", "/runs/r-1"};
  const nlohmann::json variables =
      attempt_environment(plan, run, {3, {}, "tcp://127.0.0.1:5"}).at("variables");
  EXPECT_EQ(variables, (nlohmann::json{{"A", "with \"quotes\",\nnewline and ="},
                                       {"TOKEN", "s3cret"},
                                       {"MUSTER_RUN_ID", "r-1"},
                                       {"MUSTER_ATTEMPT", "3"},
                                       {"MUSTER_RUN_DIR", "/runs/r-1"},
                                       {"MUSTER_CHECKPOINT_DIR", "/runs/r-1/checkpoints"},
                                       {"MUSTER_DATA_DIR", "/data"},
                                       {"MUSTER_STOP_SIGNAL", "SIGUSR2"},
                                       {"MUSTER_EVENTS", "tcp://127.0.0.1:5"}}));
}

TEST(SignalNumber, KnowsNames) {
  EXPECT_EQ(signal_number("SIGUSR1"), 10);
  EXPECT_EQ(signal_number("SIGTERM"), 15);
  EXPECT_EQ(signal_number("USR1"), 0);
  EXPECT_EQ(signal_number("SIGNOPE"), 0);
}

}  // namespace
}  // namespace muster
