// The plan for Slurm: what a task asks for in the site's terms, and what a site does not know or allow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/plan.h"
#include "launcher/task_spec.h"
#include "tests/support/sample_site.h"

namespace muster {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::sample_site;

const std::string kHead = "task_name: t\nentry_point: prog\n";
const std::string kTrainer = "task_name: t\nentry_point: muster-train\ndata_path: /d\n";

Result<Plan> planned(const std::string& text, const SiteProfile& site) {
  TaskFileContext context;
  context.shown_file = "task.yaml";
  context.file = "/proj/jobs/task.yaml";
  const auto spec = parse_task(text, context);
  EXPECT_TRUE(spec) << spec.error().message;
  PlanOptions options;
  options.slurm_site = &site;
  options.trainer_executable = "/opt/muster/muster-train";
  options.default_checkpoint_root = "/state/muster/work";
  return make_plan(spec.value_or(TaskSpec{}), options);
}

Plan plan_of(const std::string& text, const SiteProfile& site = sample_site()) {
  const auto plan = planned(text, site);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan.value_or(Plan{});
}

AllocationRequest request_of(const std::string& text, const SiteProfile& site = sample_site()) {
  return plan_of(text, site).allocation.value_or(AllocationRequest{});
}

std::string refusal_of(const std::string& text, const SiteProfile& site = sample_site()) {
  const auto plan = planned(text, site);
  EXPECT_FALSE(plan) << text;
  if (plan) return "";
  EXPECT_EQ(plan.error().code, ErrorCode::kUnavailable);
  return plan.error().message;
}

TEST(SlurmPlan, WorkersWithoutGpusShareNodes) {
  const AllocationRequest request = request_of(
      kHead +
      "num_workers: 3\nranks_per_worker: 2\nresources: {cpus_per_worker: 4, memory_per_worker: 8G}\n");
  EXPECT_EQ(request.job_name, "t");
  EXPECT_EQ(request.workers, 3);
  EXPECT_FALSE(request.node_per_worker);
  EXPECT_FALSE(request.nodes_max);
  EXPECT_EQ(request.cpus_per_worker, 4);
  EXPECT_EQ(request.memory_bytes, std::uint64_t{8} << 30);
  EXPECT_EQ(gres_of(request), "");
}

TEST(SlurmPlan, AWorkerWithGpusHasANodeOfItsOwnAndSoHasALoneOne) {
  const AllocationRequest request = request_of(
      kHead + "num_workers: 3\ngpu_per_worker: 2\nresources: {gpu_type: hopper, cpus_per_worker: 8}\n");
  EXPECT_TRUE(request.node_per_worker);
  EXPECT_EQ(request.gpus_per_worker, 2);
  EXPECT_EQ(gres_of(request), "gpu:nvidia_h100_80gb_hbm3:2");
  EXPECT_EQ(gres_of(request_of(kHead + "gpu_per_worker: 4\n")), "gpu:4");
  EXPECT_TRUE(request_of(kHead).node_per_worker);
}

TEST(SlurmPlan, WithoutAWordAboutCpusThereIsOneForEachComputingThread) {
  EXPECT_EQ(request_of(kHead + "ranks_per_worker: 3\n").cpus_per_worker, 3);
  EXPECT_EQ(request_of(kHead + "gpu_per_worker: 4\n").cpus_per_worker, 4);
  EXPECT_EQ(request_of(kTrainer + "ranks_per_worker: 2\ntrainer: {epochs: 1, threads: 4}\n").cpus_per_worker,
            8);
}

TEST(SlurmPlan, TimeIsNeverWithoutAnEnd) {
  EXPECT_EQ(request_of(kHead).time_limit, hours(4));
  EXPECT_EQ(request_of(kHead + "resources: {time_limit: 90m}\n").time_limit, minutes(90));
  EXPECT_EQ(request_of(kHead + "resources: {time_limit: 1s500ms}\n").time_limit, seconds(2));
  EXPECT_EQ(request_of(kHead, SiteProfile()).time_limit, hours(1));
  SiteProfile narrow = sample_site();
  narrow.limits.max_time = hours(2);
  EXPECT_EQ(request_of(kHead, narrow).time_limit, hours(2));
  const Plan unlimited = plan_of(kHead + "resources: {time_limit: unlimited}\n");
  EXPECT_EQ(unlimited.allocation->time_limit, hours(4));
  EXPECT_THAT(unlimited.notices,
              ElementsAre("task.yaml:3:13: resources.time_limit: a job without an end waits behind every "
                          "maintenance, so each allocation asks for the site's 4h"));
}

TEST(SlurmPlan, PriorityIsTheSitesQosPartitionAccountAndNice) {
  const AllocationRequest high = request_of(kHead + "schedule: {priority: high}\n");
  EXPECT_EQ(high.place.qos, "high");
  EXPECT_EQ(high.place.partition, "batch");
  EXPECT_EQ(high.place.account, "research");
  EXPECT_EQ(high.place.nice, 10);
  EXPECT_EQ(request_of(kHead).place.qos, "normal");
  EXPECT_EQ(request_of(kHead + "schedule: {priority: low}\n").place.qos, "low");
}

TEST(SlurmPlan, TheRestIsPassedOn) {
  SiteProfile site = sample_site();
  site.process_start = ProcessStart::kSrunPmi2;
  const AllocationRequest request =
      request_of(kHead + "resources: {constraint: \"a&b\", exclude: [\"n[1-2]\", n7]}\n", site);
  EXPECT_EQ(request.constraint, "a&b");
  EXPECT_THAT(request.exclude, ElementsAre("n[1-2]", "n7"));
  EXPECT_THAT(request.extra_options, ElementsAre("--exclusive=user"));
  EXPECT_EQ(request.process_start, ProcessStart::kSrunPmi2);
}

TEST(SlurmPlan, AsksForFewerNodesThanWorkersOnlyIfTheSiteHasALimit) {
  EXPECT_FALSE(request_of(kHead + "num_workers: 4\n").nodes_max);
  EXPECT_EQ(request_of(kHead + "num_workers: 5\n").nodes_max, 4);
}

TEST(SlurmPlan, TheSitesEnvironmentYieldsToTheTasks) {
  const Plan plan = plan_of(kHead + "env: {NCCL_DEBUG: INFO}\n");
  EXPECT_EQ(plan.network_interface, "ib0");
  EXPECT_THAT(plan.environment, ElementsAre(EnvironmentVariable{"NCCL_DEBUG", "INFO", false},
                                            EnvironmentVariable{"NCCL_IB_HCA", "mlx5_0,mlx5_1", false},
                                            EnvironmentVariable{"NCCL_SOCKET_IFNAME", "ib0", false},
                                            EnvironmentVariable{"GLOO_SOCKET_IFNAME", "ib0", false}));
  const Plan own = plan_of(kHead + "network: {interface: eth7}\n");
  EXPECT_EQ(own.network_interface, "eth7");
  EXPECT_THAT(own.environment, ::testing::Contains(EnvironmentVariable{"NCCL_SOCKET_IFNAME", "eth7", false}));
  SiteProfile named = sample_site();
  named.environment = {{"NCCL_SOCKET_IFNAME", "ib1", false}};
  EXPECT_THAT(plan_of(kHead, named).environment,
              ElementsAre(EnvironmentVariable{"NCCL_SOCKET_IFNAME", "ib1", false},
                          EnvironmentVariable{"GLOO_SOCKET_IFNAME", "ib0", false}));
}

TEST(SlurmPlan, ItsResultIsThatOfBareMetal) {
  const std::string text = kTrainer + "trainer: {epochs: 3}\n";
  TaskFileContext context;
  context.file = "/proj/jobs/task.yaml";
  PlanOptions bare;
  bare.trainer_executable = "/opt/muster/muster-train";
  const auto plan = make_plan(parse_task(text, context).value(), bare);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan_of(text).result_fingerprint, plan->result_fingerprint);
  EXPECT_FALSE(plan->allocation);
}

TEST(SlurmPlan, IsShown) {
  const Plan plan = plan_of(kHead +
                            "num_workers: 2\ngpu_per_worker: 4\nresources: {gpu_type: a100, "
                            "cpus_per_worker: 8, memory_per_worker: 64G}\n");
  EXPECT_THAT(plan_to_text(plan),
              HasSubstr("on            Slurm: 2 workers, each on a node of its own, each with 8 "
                        "CPUs, gpu:a100:4, 64G; for 4h\n"));
  EXPECT_THAT(plan_to_text(plan), Not(HasSubstr("mpirun")));
  const nlohmann::json shown = plan_to_json(plan);
  EXPECT_EQ(shown["allocation"]["gres_per_worker"], "gpu:a100:4");
  EXPECT_EQ(shown["allocation"]["time_limit_s"], 14'400);
  EXPECT_EQ(shown["allocation"]["process_start"], "srun_pmix");
  EXPECT_FALSE(shown.contains("launch"));
  EXPECT_THAT(plan_to_text(plan_of(kHead + "num_workers: 2\n")),
              HasSubstr("Slurm: 2 workers, sharing nodes as they fit, each with 1 CPU; for 4h\n"));
}

TEST(SlurmRefusal, NamesWhatTheSiteDoesNotKnowOrAllow) {
  EXPECT_EQ(
      refusal_of(kHead +
                 "num_workers: 5\ngpu_per_worker: 4\nresources:\n  gpu_type: V100S\n  cpus_per_worker: 3\n"
                 "  time_limit: 3d\n"),
      "task.yaml:3:1: num_workers: found 5; each worker with GPUs has a node of its own, and this site "
      "allows "
      "4 nodes: have fewer workers, with more GPUs each\n"
      "task.yaml:6:3: resources.gpu_type: found 'V100S'; known at this site: a100, h100\n"
      "task.yaml:7:3: resources.cpus_per_worker: found 3; allowed on Slurm: at least one for each of the 4 "
      "ranks of a worker\n"
      "task.yaml:8:3: resources.time_limit: found 3d; allowed at this site: at most 2d");
  EXPECT_EQ(refusal_of(kHead + "gpu_per_worker: 1\nresources: {gpu_type: h10}\n"),
            "task.yaml:4:13: resources.gpu_type: found 'h10'; known at this site: a100, h100; did you mean "
            "'h100'?");
  EXPECT_THAT(refusal_of(kHead + "gpu_per_worker: 1\nresources: {gpu_type: hoper}\n"),
              HasSubstr("; did you mean 'hopper'?"));
}

TEST(SlurmRefusal, ASiteWithoutAProfileKnowsNoNames) {
  EXPECT_EQ(
      refusal_of(kHead + "gpu_per_worker: 1\nresources: {gpu_type: a100}\nschedule: {priority: high}\n",
                 SiteProfile()),
      "task.yaml:4:13: resources.gpu_type: found 'a100'; the site profile names no GPUs: remove the key, or "
      "add it to the profile's gpus\n"
      "task.yaml:5:12: schedule.priority: found 'high'; the site profile gives it no QOS, partition, account "
      "or nice value: remove the key, or add priority.high to the profile");
}

TEST(SlurmRefusal, WhatIsNotThereYetIsNamed) {
  EXPECT_EQ(
      refusal_of(kHead + "image: /a.sqsh\nnum_workers: 2\nmounts: [\"/a:/b\"]\nschedule:\n  min_workers: 1\n"
                         "  max_workers: 3\n  spare_workers: 1\nnetwork: {rdma: true}\n"
                         "hooks: {on_preempt: x}\n"),
      "task.yaml:3:1: image: found '/a.sqsh'; muster under Slurm does not start containers yet: remove the "
      "key\n"
      "task.yaml:5:1: mounts: found mounts; without a container there is nothing to mount into: remove the "
      "key\n"
      "task.yaml:7:3: schedule.min_workers: found 1; muster under Slurm cannot go on with fewer workers yet: "
      "remove the key, or make it num_workers, which is 2\n"
      "task.yaml:8:3: schedule.max_workers: found 3; muster under Slurm cannot grow a run yet: remove the "
      "key, "
      "or "
      "make it num_workers, which is 2\n"
      "task.yaml:9:3: schedule.spare_workers: found 1; muster under Slurm holds no spare workers yet: remove "
      "the "
      "key, or make it 0\n"
      "task.yaml:10:11: network.rdma: found true; muster under Slurm cannot promise RDMA: remove the key "
      "(Open "
      "MPI then uses it if it can), or make it false\n"
      "task.yaml:11:9: hooks.on_preempt: found a hook; muster under Slurm does not run hooks yet: remove the "
      "key");
  EXPECT_EQ(
      refusal_of(kTrainer + "gpu_per_worker: 2\ntrainer: {epochs: 1}\n"),
      "task.yaml:4:1: gpu_per_worker: found 2; muster-train does not compute on GPUs yet: remove the key, or "
      "make it 0");
}

TEST(SlurmRefusal, TextsThatABatchScriptCannotHold) {
  EXPECT_EQ(
      refusal_of(kHead + "checkpoint_path: \"/my runs\"\nresources:\n  constraint: \"a\\nb\"\n"
                         "  exclude: [n1, \"n2 n3\"]\n"),
      "task.yaml:3:1: checkpoint_path: found '/my runs'; options of a batch script cannot hold a space\n"
      "task.yaml:5:3: resources.constraint: found 'a?b'; options of a batch script cannot hold a line "
      "break\n"
      "task.yaml:6:3: resources.exclude: found 'n2 n3'; options of a batch script cannot hold a space");
}

TEST(SlurmRefusal, OnlyMpirunPassesTwoSignalsOn) {
  const std::string text = kHead + "schedule: {stop_signal: SIGTERM}\n";
  EXPECT_EQ(plan_of(text).stop_signal, "SIGTERM");
  SiteProfile site = sample_site();
  site.process_start = ProcessStart::kMpirun;
  EXPECT_THAT(refusal_of(text, site), HasSubstr("task.yaml:3:12: schedule.stop_signal: found SIGTERM"));
}

TEST(SlurmNotice, SaysWhatMightSurprise) {
  EXPECT_THAT(
      plan_of(kHead + "num_workers: 2\ngpu_per_worker: 2\nschedule: {preemptible: true, grace: 1m}\n")
          .notices,
      ElementsAre("task.yaml:3:1: num_workers: each worker with GPUs has a node of its own; GPUs that may "
                  "lie on one node belong to one worker: make gpu_per_worker larger and num_workers smaller",
                  "task.yaml:4:1: gpu_per_worker: resources.cpus_per_worker is not given; a worker asks for "
                  "2 CPUs, one a rank",
                  "task.yaml:5:12: schedule.preemptible: on Slurm the QOS or partition decides what is "
                  "preempted; here it is that of schedule.priority",
                  "task.yaml:5:31: schedule.grace: found 1m; a preempted job is killed 15s after the notice "
                  "at this site"));
  EXPECT_THAT(plan_of(kHead + "num_workers: 2\nresources: {cpus_per_worker: 4, memory_per_worker: 1G}\n"
                              "schedule: {priority: high, grace: 15s}\n")
                  .notices,
              IsEmpty());
}

}  // namespace
}  // namespace muster
