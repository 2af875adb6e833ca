// mpirun's command line for one attempt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/plan.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

Plan plan() {
  Plan plan;
  plan.world_size = 3;
  plan.argv = {"prog", "-a", "b c"};
  plan.working_directory = "/proj";
  return plan;
}

std::vector<std::string> command(const Plan& plan, const std::string& hostfile = "") {
  return mpirun_argv(plan, "/bin/muster", "/run/environment.json", hostfile);
}

// The value after `name` in the command.
std::string parameter(const std::vector<std::string>& argv, const std::string& name) {
  const auto found = std::find(argv.begin(), argv.end(), name);
  return found == argv.end() || found + 1 == argv.end() ? "(absent)" : *(found + 1);
}

TEST(MpirunCommand, OnThisMachine) {
  EXPECT_THAT(
      command(plan()),
      ElementsAre("mpirun", "--bind-to", "none", "--tag-output", "--stdin", "none", "--mca",
                  "orte_base_help_aggregate", "0", "--mca", "ras", "^slurm,tm,lsf,gridengine", "--mca", "plm",
                  "^slurm,tm,lsf", "--oversubscribe", "--wdir", "/proj", "-np", "3", "/bin/muster", "exec",
                  "--environment", "/run/environment.json", "--", "prog", "-a", "b c"));
}

TEST(MpirunCommand, OnHostsSlotsAreKept) {
  const auto argv = command(plan(), "/run/hostfile");
  EXPECT_EQ(parameter(argv, "--hostfile"), "/run/hostfile");
  EXPECT_EQ(parameter(argv, "--map-by"), "slot");
  EXPECT_THAT(argv, Contains("--nooversubscribe"));
  EXPECT_THAT(argv, Not(Contains("--oversubscribe")));
}

TEST(MpirunCommand, TellsOnlyRootsMpirunThatItIsRoot) {
  EXPECT_THAT(command(plan()), Not(Contains("--allow-run-as-root")));
  Plan as_root = plan();
  as_root.run_as_root = true;
  EXPECT_THAT(command(as_root), Contains("--allow-run-as-root"));
}

TEST(MpirunCommand, PassesAgentAndNetworkOn) {
  EXPECT_EQ(parameter(command(plan()), "plm_rsh_agent"), "(absent)");
  EXPECT_EQ(parameter(command(plan()), "btl"), "(absent)");
  Plan networked = plan();
  networked.rsh_agent = "/bin/agent -x";
  networked.network_interface = "eth1";
  networked.rdma_allowed = false;
  const auto argv = command(networked);
  EXPECT_EQ(parameter(argv, "plm_rsh_agent"), "/bin/agent -x");
  EXPECT_EQ(parameter(argv, "btl_tcp_if_include"), "eth1");
  EXPECT_EQ(parameter(argv, "oob_tcp_if_include"), "eth1");
  EXPECT_EQ(parameter(argv, "btl"), "self,vader,tcp");
  EXPECT_EQ(parameter(argv, "pml"), "ob1");
}

}  // namespace
}  // namespace muster
