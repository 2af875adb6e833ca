#include "launcher/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// What Open MPI 4.1 sets for rank 2 of 4 on the second of two nodes, as far as it matters.
Environment open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "2"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"OMPI_COMM_WORLD_NODE_RANK", "0"},
          {"OMPI_MCA_ess_base_jobid", "1987248129"},
          {"OMPI_MCA_orte_precondition_transports", "7cfa1d1928faa705-26ae05a94a5c597a"},
          {"OMPI_MCA_orte_local_daemon_uri", "1987248128.1;tcp://10.0.0.2:45029"},
          {"PMIX_NAMESPACE", "1987248129"},
          {"PMIX_RANK", "2"}};
}

// Task 4 of a step on three nodes: two tasks on each of the first two, one on the third.
Environment slurm() {
  return {{"SLURM_JOB_ID", "77"},
          {"SLURM_STEP_ID", "3"},
          {"SLURM_PROCID", "4"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "2"},
          {"SLURM_NTASKS", "5"},
          {"SLURM_STEP_NUM_TASKS", "5"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
          {"SLURM_TASKS_PER_NODE", "8(x3)"}};
}

// The batch script of a job: it has a task's variables, but srun did not start it.
Environment slurm_batch_script() {
  return {{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "0"},  {"SLURM_NTASKS", "4"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}};
}

Environment merged(Environment first, const Environment& second) {
  first.insert(second.begin(), second.end());
  return first;
}

std::string refusal(const Environment& environment, bool standalone = false) {
  const auto placement = find_placement(environment, standalone);
  if (placement) return "accepted";
  EXPECT_EQ(placement.error().code, ErrorCode::kInvalidArgument);
  return placement.error().message;
}

TEST(RankEnvironment, OpenMpi) {
  const auto placement = find_placement(open_mpi(), false);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement->launcher, LauncherKind::kOpenMpi);
  EXPECT_FALSE(placement->single_node);
  EXPECT_EQ(placement->node_key, "1987248128.1");
  EXPECT_EQ(placement->job_key, "ompi-1987248129-7cfa1d1928faa705-26ae05a94a5c597a");
  // Open MPI's NODE_RANK is a process's number on its node, and must not become the node's number.
  EXPECT_THAT(contract_variables(*placement),
              ElementsAre(Pair("RANK", "2"), Pair("WORLD_SIZE", "4"), Pair("LOCAL_RANK", "0"),
                          Pair("LOCAL_WORLD_SIZE", "2")));
}

TEST(RankEnvironment, OpenMpiOnOneNode) {
  Environment environment = open_mpi();
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
  environment["OMPI_COMM_WORLD_LOCAL_RANK"] = "2";
  const auto placement = find_placement(environment, false);
  ASSERT_TRUE(placement);
  EXPECT_TRUE(placement->single_node);
  EXPECT_EQ(placement->node_rank, 0);
}

TEST(RankEnvironment, SlurmUsesTheStepsOwnCounts) {
  const auto placement = find_placement(slurm(), false);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement->launcher, LauncherKind::kSlurm);
  EXPECT_THAT(contract_variables(*placement),
              ElementsAre(Pair("RANK", "4"), Pair("WORLD_SIZE", "5"), Pair("LOCAL_RANK", "0"),
                          Pair("LOCAL_WORLD_SIZE", "1"), Pair("NODE_RANK", "2")));
  EXPECT_EQ(placement->job_key, "slurm-cluster-77.3-0");
  Environment requeued = slurm();
  requeued["SLURM_RESTART_COUNT"] = "1";
  EXPECT_NE(find_placement(requeued, false)->job_key, placement->job_key);
}

TEST(RankEnvironment, MpirunInsideAnAllocationIsTheInnermost) {
  const auto placement = find_placement(merged(open_mpi(), slurm()), false);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement->launcher, LauncherKind::kOpenMpi);
  EXPECT_EQ(placement->rank, 2);
}

TEST(RankEnvironment, SrunInsideMpirunIsTheInnermostWhenPmixSaysSo) {
  Environment environment = merged(slurm(), open_mpi());
  environment["PMIX_NAMESPACE"] = "slurm.pmix.77.3";
  environment["PMIX_RANK"] = "4";
  const auto placement = find_placement(environment, false);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement->launcher, LauncherKind::kSlurm);
  EXPECT_EQ(placement->rank, 4);
}

TEST(RankEnvironment, ABatchScriptIsNoRank) {
  EXPECT_THAT(refusal(slurm_batch_script()), HasSubstr("no step started by srun"));
  EXPECT_TRUE(find_placement(slurm_batch_script(), true));
}

TEST(RankEnvironment, NothingFoundIsAnErrorUnlessStandalone) {
  EXPECT_THAT(refusal({}), HasSubstr("give --standalone"));
  const auto placement = find_placement({}, true);
  ASSERT_TRUE(placement);
  EXPECT_THAT(contract_variables(*placement),
              ElementsAre(Pair("RANK", "0"), Pair("WORLD_SIZE", "1"), Pair("LOCAL_RANK", "0"),
                          Pair("LOCAL_WORLD_SIZE", "1"), Pair("NODE_RANK", "0")));
}

TEST(RankEnvironment, PmixAloneNeedsTheUsersWorldSize) {
  const Environment environment{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-host-1234@1"}};
  EXPECT_THAT(refusal(environment), HasSubstr("set WORLD_SIZE"));
  const auto placement = find_placement(merged(environment, {{"WORLD_SIZE", "3"}}), false);
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->launcher, LauncherKind::kPmix);
  EXPECT_EQ(placement->world_size, 3);
  EXPECT_FALSE(placement->local_rank);
  EXPECT_EQ(placement->job_key, "pmix-prterun-host-1234_1");
  EXPECT_THAT(refusal(merged(environment, {{"WORLD_SIZE", "1"}})), HasSubstr("PMIX_RANK=1 is not below"));
}

TEST(RankEnvironment, SilentSingletonsAreRefused) {
  Environment singleton = open_mpi();
  singleton["OMPI_COMM_WORLD_SIZE"] = "1";
  singleton["OMPI_COMM_WORLD_RANK"] = "0";
  singleton["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  singleton["WORLD_SIZE"] = "4";
  EXPECT_THAT(refusal(singleton), HasSubstr("WORLD_SIZE=4 is set, but Open MPI says 1"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "4"}}, true),
              HasSubstr("WORLD_SIZE=4 is set, but --standalone says 1"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "four"}}, true), HasSubstr("WORLD_SIZE=four is set"));
  EXPECT_THAT(refusal(merged(open_mpi(), {{"RANK", "3"}})), HasSubstr("RANK=3 is set, but Open MPI says 2"));
  EXPECT_THAT(refusal(open_mpi(), true), HasSubstr("each would run alone as rank 0"));
  EXPECT_TRUE(find_placement(merged(open_mpi(), {{"RANK", "2"}, {"WORLD_SIZE", "4"}}), false));
}

TEST(RankEnvironment, LaunchersThatContradictThemselvesAreRefused) {
  struct Case {
    Environment base;
    const char* name;
    const char* value;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {open_mpi(), "OMPI_COMM_WORLD_RANK", "4", "OMPI_COMM_WORLD_RANK=4 is not below"},
           {open_mpi(), "OMPI_COMM_WORLD_RANK", "-1", "not a whole number"},
           {open_mpi(), "OMPI_COMM_WORLD_RANK", "1x", "not a whole number"},
           {open_mpi(), "OMPI_COMM_WORLD_SIZE", "99999999999", "not a whole number"},
           {open_mpi(), "OMPI_COMM_WORLD_LOCAL_RANK", "2", "OMPI_COMM_WORLD_LOCAL_RANK=2 is not below"},
           {slurm(), "SLURM_PROCID", "5", "SLURM_PROCID=5 is not below"},
           {slurm(), "SLURM_NODEID", "3", "SLURM_NODEID=3 is not below"},
           {slurm(), "SLURM_LOCALID", "1", "SLURM_LOCALID=1 is not below"},
           {slurm(), "SLURM_STEP_TASKS_PER_NODE", "2(x3)", "adds up to 6 tasks"},
           {slurm(), "SLURM_STEP_TASKS_PER_NODE", "2(x3", "not a list of counts"}}) {
    Environment environment = c.base;
    environment[c.name] = c.value;
    EXPECT_THAT(refusal(environment), HasSubstr(c.message)) << c.name << "=" << c.value;
  }
  Environment incomplete = open_mpi();
  incomplete.erase("OMPI_COMM_WORLD_LOCAL_SIZE");
  EXPECT_THAT(refusal(incomplete), HasSubstr("OMPI_COMM_WORLD_LOCAL_SIZE is not set"));
}

TEST(RankEnvironment, TasksPerNode) {
  EXPECT_THAT(parse_tasks_per_node("1").value(), ElementsAre(1));
  EXPECT_THAT(parse_tasks_per_node("2(x3),1").value(), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(parse_tasks_per_node("4,2(x2),16(x1)").value(), ElementsAre(4, 2, 2, 16));
  for (const char* bad : {"", ",", "1,", "a", "2(x)", "2(x0)", "2(3)", "2(x3)1", "-1", "1 ", "2(x9999999)"}) {
    EXPECT_FALSE(parse_tasks_per_node(bad)) << bad;
  }
}

struct Layout {
  std::vector<std::string> node_of_rank;
  std::vector<int> node_rank;
  std::vector<int> local_rank;
  std::vector<int> local_world_size;
};

TEST(RankEnvironment, NodesAreNumberedByTheirLowestRank) {
  for (const Layout& layout : std::vector<Layout>{
           {{"b", "b", "a", "a"}, {0, 0, 1, 1}, {0, 1, 0, 1}, {2, 2, 2, 2}},                // by slot
           {{"a", "b", "a", "b"}, {0, 1, 0, 1}, {0, 0, 1, 1}, {2, 2, 2, 2}},                // by node
           {{"c", "a", "b", "a", "c"}, {0, 1, 2, 1, 0}, {0, 0, 0, 1, 1}, {2, 2, 1, 2, 2}},  // uneven
           {{"a"}, {0}, {0}, {1}}}) {
    for (std::size_t rank = 0; rank < layout.node_of_rank.size(); ++rank) {
      RankPlacement placement;
      placement.rank = static_cast<int>(rank);
      placement.world_size = static_cast<int>(layout.node_of_rank.size());
      ASSERT_TRUE(complete_placement(placement, layout.node_of_rank));
      EXPECT_EQ(placement.node_rank, layout.node_rank[rank]);
      EXPECT_EQ(placement.local_rank, layout.local_rank[rank]);
      EXPECT_EQ(placement.local_world_size, layout.local_world_size[rank]);
    }
  }
}

TEST(RankEnvironment, TheLaunchersOwnNumbersStay) {
  auto placement = find_placement(slurm(), false);
  ASSERT_TRUE(placement);
  // Ranks laid out so that Slurm's node 2 has not the third lowest rank.
  ASSERT_TRUE(complete_placement(*placement, {"y", "y", "z", "z", "x"}));
  EXPECT_EQ(placement->node_rank, 2);
  const Status mismatch = complete_placement(*placement, {"y", "y", "z", "x", "x"});
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().code, ErrorCode::kMismatch);
}

}  // namespace
}  // namespace muster
