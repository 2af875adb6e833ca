// The plan: argv, environment, fingerprint, refusals, mpirun's command line, and secrets that stay hidden.
#include "launcher/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "launcher/task_spec.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kHead = "task_name: t\nentry_point: prog\n";
const std::string kTrainer = "task_name: t\nentry_point: muster-train\ndata_path: /d\n";

TaskSpec parse(const std::string& text) {
  TaskFileContext context;
  context.shown_file = "task.yaml";
  context.file = "/proj/jobs/task.yaml";
  context.home = "/home/ada";
  const auto spec = parse_task(text, context);
  EXPECT_TRUE(spec) << spec.error().message;
  return spec.value_or(TaskSpec{});
}

PlanOptions options() {
  PlanOptions options;
  options.trainer_executable = "/opt/muster/muster-train";
  options.default_checkpoint_root = "/state/muster/work";
  return options;
}

Plan plan_of(const std::string& text, const PlanOptions& with = options()) {
  const auto plan = make_plan(parse(text), with);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan.value_or(Plan{});
}

std::string refusal_of(const std::string& text) {
  const auto plan = make_plan(parse(text), options());
  EXPECT_FALSE(plan) << text;
  if (plan) return "";
  EXPECT_EQ(plan.error().code, ErrorCode::kUnavailable);
  return plan.error().message;
}

std::map<std::string, std::string> fingerprint_of(const std::string& text) {
  const Plan plan = plan_of(text);
  return {plan.result_fingerprint.begin(), plan.result_fingerprint.end()};
}

// The value after a flag in the program's argv.
std::string flag_of(const Plan& plan, const std::string& flag) {
  const auto found = std::find(plan.argv.begin(), plan.argv.end(), flag);
  return found == plan.argv.end() || found + 1 == plan.argv.end() ? "(absent)" : *(found + 1);
}

TEST(Plan, ScriptsRunWithPythonAndOthersAsTheyAre) {
  EXPECT_THAT(plan_of("task_name: t\nentry_point: train.py\nargs: [--lr, 0.1]\n").argv,
              ElementsAre("python3", "/proj/jobs/train.py", "--lr", "0.1"));
  EXPECT_THAT(plan_of("task_name: t\nentry_point: ./run.sh\nargs: [\"a b\"]\n").argv,
              ElementsAre("/proj/jobs/run.sh", "a b"));
  EXPECT_THAT(plan_of("task_name: t\nentry_point: hostname\n").argv, ElementsAre("hostname"));
}

TEST(Plan, CountsRanks) {
  const Plan plan = plan_of(kHead + "num_workers: 3\nranks_per_worker: 2\n");
  EXPECT_EQ(plan.num_workers, 3);
  EXPECT_EQ(plan.ranks_per_worker, 2);
  EXPECT_EQ(plan.world_size, 6);
}

TEST(Plan, KnowsItsPlaces) {
  const Plan plan = plan_of(kHead);
  EXPECT_EQ(plan.task_file, "/proj/jobs/task.yaml");
  EXPECT_EQ(plan.working_directory, "/proj/jobs");
  EXPECT_EQ(plan.checkpoint_root, "/state/muster/work");
  EXPECT_EQ(plan.data_path, "");
  EXPECT_FALSE(plan.is_trainer);
  EXPECT_EQ(plan_of(kHead + "checkpoint_path: /ckpt\n").checkpoint_root, "/ckpt");
}

TEST(Plan, TheTrainerGetsEveryResolvedValue) {
  const Plan plan = plan_of(kTrainer + "trainer: {epochs: 3, checkpoint: {every: 2m}}\n");
  EXPECT_TRUE(plan.is_trainer);
  EXPECT_EQ(plan.argv.front(), "/opt/muster/muster-train");
  const std::map<std::string, std::string> expected{{"--model", "mlp"},
                                                    {"--hidden", "512,256"},
                                                    {"--activation", "relu"},
                                                    {"--layer-norm", "0"},
                                                    {"--dropout", "0"},
                                                    {"--label-smoothing", "0"},
                                                    {"--dataset", "idx"},
                                                    {"--batch-size", "256"},
                                                    {"--epochs", "3"},
                                                    {"--steps", "(absent)"},
                                                    {"--seed", "1"},
                                                    {"--shards", "16"},
                                                    {"--optimizer", "adamw"},
                                                    {"--learning-rate", "0.001"},
                                                    {"--momentum", "(absent)"},
                                                    {"--weight-decay", "0.01"},
                                                    {"--beta1", "0.9"},
                                                    {"--beta2", "0.999"},
                                                    {"--epsilon", "1e-08"},
                                                    {"--lr-schedule", "cosine"},
                                                    {"--warmup-steps", "0"},
                                                    {"--min-learning-rate", "0"},
                                                    {"--precision", "fp32"},
                                                    {"--device", "cpu"},
                                                    {"--threads", "1"},
                                                    {"--allreduce", "tree"},
                                                    {"--collective-timeout-ms", "600000"},
                                                    {"--peer-timeout-ms", "10000"},
                                                    {"--reproducible", "1"},
                                                    {"--on-nonfinite", "stop"},
                                                    {"--accumulation-steps", "(absent)"},
                                                    {"--clip-norm", "(absent)"},
                                                    {"--early-stop-metric", "(absent)"},
                                                    {"--init-from", "(absent)"},
                                                    {"--prefetch", "2"},
                                                    {"--data-timeout-ms", "60000"},
                                                    {"--evaluate-every-epochs", "1"},
                                                    {"--log-every-steps", "10"},
                                                    {"--log-samples", "0"},
                                                    {"--checkpoint-every-steps", "0"},
                                                    {"--checkpoint-every-seconds", "120"},
                                                    {"--checkpoint-automatic", "0"},
                                                    {"--expected-mtbf-seconds", "0"},
                                                    {"--checkpoint-background", "1"},
                                                    {"--checkpoint-timeout-ms", "600000"},
                                                    {"--keep-last", "2"},
                                                    {"--keep-best", "1"}};
  for (const auto& [flag, value] : expected) EXPECT_EQ(flag_of(plan, flag), value) << flag;
  std::size_t flags_given = 0;
  for (const auto& [flag, value] : expected) flags_given += value == "(absent)" ? 0 : 1;
  EXPECT_EQ(plan.argv.size(), 1 + 2 * flags_given);
}

TEST(Plan, WhatIsOffByDefaultIsPassedOnlyIfAskedFor) {
  const Plan plan = plan_of(kTrainer +
                            "trainer:\n  epochs: 3\n  accumulation_steps: 4\n  clip_norm: 0.5\n"
                            "  init_from: /runs/other\n  allreduce: {timeout: 20s}\n"
                            "  schedule: {kind: step, every_epochs: 2}\n"
                            "  early_stop: {metric: loss, patience: 3}\n");
  for (const auto& [flag, value] : std::map<std::string, std::string>{{"--accumulation-steps", "4"},
                                                                      {"--clip-norm", "0.5"},
                                                                      {"--init-from", "/runs/other"},
                                                                      {"--data-timeout-ms", "20000"},
                                                                      {"--lr-schedule", "step"},
                                                                      {"--lr-every-steps", "0"},
                                                                      {"--lr-every-epochs", "2"},
                                                                      {"--lr-gamma", "0.1"},
                                                                      {"--min-learning-rate", "(absent)"},
                                                                      {"--early-stop-metric", "loss"},
                                                                      {"--early-stop-patience", "3"},
                                                                      {"--early-stop-min-delta", "0"}}) {
    EXPECT_EQ(flag_of(plan, flag), value) << flag;
  }
}

TEST(Plan, TheCheckpointThatARunBeginsWithDecidesItsResult) {
  const std::string text = kTrainer + "trainer: {epochs: 3, init_from: /runs/other}\n";
  PlanOptions seen = options();
  seen.init_from_sha256 = "abc";
  const Plan plan = plan_of(text, seen);
  const std::map<std::string, std::string> fingerprint(plan.result_fingerprint.begin(),
                                                       plan.result_fingerprint.end());
  EXPECT_EQ(fingerprint.at("trainer.init_from"), "/runs/other");
  EXPECT_EQ(fingerprint.at("trainer.init_from.sha256"), "abc");
}

TEST(Plan, TheEvaluationsDecideAnEarlyStop) {
  const std::string key = "trainer.evaluate_every_epochs";
  EXPECT_FALSE(fingerprint_of(kTrainer + "trainer: {epochs: 3}\n").contains(key));
  EXPECT_TRUE(fingerprint_of(kTrainer + "trainer: {epochs: 3, early_stop: {metric: loss, patience: 1}}\n")
                  .contains(key));
}

TEST(Plan, SgdGetsItsOwnSettings) {
  const Plan plan = plan_of(kTrainer + "trainer: {steps: 9, optimizer: {name: sgd, momentum: 0.5}}\n");
  EXPECT_EQ(flag_of(plan, "--steps"), "9");
  EXPECT_EQ(flag_of(plan, "--momentum"), "0.5");
  EXPECT_EQ(flag_of(plan, "--learning-rate"), "0.01");
  EXPECT_EQ(flag_of(plan, "--beta1"), "(absent)");
}

TEST(Plan, AModelGetsItsOwnSettings) {
  const Plan lenet = plan_of(kTrainer + "trainer: {steps: 9, model: lenet, dropout: 0.5}\n");
  EXPECT_EQ(flag_of(lenet, "--model"), "lenet");
  EXPECT_EQ(flag_of(lenet, "--dropout"), "0.5");
  EXPECT_EQ(flag_of(lenet, "--label-smoothing"), "0");
  const Plan logistic = plan_of(kTrainer + "trainer: {steps: 9, model: logistic}\n");
  EXPECT_EQ(flag_of(logistic, "--dropout"), "(absent)");
  for (const char* flag : {"--hidden", "--activation", "--layer-norm"}) {
    EXPECT_EQ(flag_of(lenet, flag), "(absent)") << flag;
    EXPECT_EQ(flag_of(logistic, flag), "(absent)") << flag;
  }
}

TEST(Plan, TheTrainerMustBeInstalled) {
  PlanOptions without = options();
  without.trainer_executable.clear();
  const auto plan = make_plan(parse(kTrainer + "trainer: {epochs: 1}\n"), without);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kUnavailable);
}

TEST(Plan, ANetworkInterfaceReachesEveryLayer) {
  const Plan plan = plan_of(kHead +
                            "env: {A: b}\nnetwork: {interface: ib0, rdma: false, NCCL_DEBUG: INFO, "
                            "NCCL_SOCKET_IFNAME: ib1}\n");
  EXPECT_THAT(plan.environment, ElementsAre(EnvironmentVariable{"A", "b", false},
                                            EnvironmentVariable{"NCCL_DEBUG", "INFO", false},
                                            EnvironmentVariable{"NCCL_SOCKET_IFNAME", "ib1", false},
                                            EnvironmentVariable{"GLOO_SOCKET_IFNAME", "ib0", false}));
  EXPECT_EQ(plan.network_interface, "ib0");
  EXPECT_FALSE(plan.rdma_allowed);
}

TEST(Plan, PlacesWorkersOnHosts) {
  PlanOptions with = options();
  with.hosts = {{"a", 3}, {"b", 4}};
  const Plan plan = plan_of(kHead + "num_workers: 2\nranks_per_worker: 2\n", with);
  EXPECT_THAT(plan.hosts, ElementsAre(Host{"a", 3}, Host{"b", 4}));
  EXPECT_THAT(plan.placement, ElementsAre(Host{"a", 2}, Host{"b", 2}));
  const auto too_many = make_plan(parse(kHead + "num_workers: 4\nranks_per_worker: 2\n"), with);
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().code, ErrorCode::kUnavailable);
}

// ---- Secrets -------------------------------------------------------------------------------------------

TEST(Plan, HidesSecrets) {
  const Plan plan =
      plan_of(kHead +
              "env:\n  WANDB_API_KEY: tip-top-1\n  PLAIN: {secret: tip-top-2}\n"
              "  my_token: tip-top-3\n  DATABASE: postgres://ada:tip-top-4@db/x\n  SEEN: yes-sir\n");
  EXPECT_EQ(plan.environment.at(0).value, "tip-top-1");
  const std::string text = plan_to_text(plan);
  const std::string json = plan_to_json(plan).dump();
  for (const std::string& shown : {text, json}) {
    EXPECT_THAT(shown, Not(HasSubstr("tip-top")));
    EXPECT_THAT(shown, HasSubstr("yes-sir"));
  }
  EXPECT_THAT(text, HasSubstr("  WANDB_API_KEY=***\n  PLAIN=***\n  my_token=***\n  DATABASE=***\n"));
  EXPECT_EQ(plan_to_json(plan)["environment"]["PLAIN"], "***");
}

TEST(Environment, TellsSecretsByNameAndForm) {
  for (const char* name : {"HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "passwd", "MyCredentials",
                           "WANDB_API_KEY", "SSH_PRIVATE_KEY", "GPG_PASSPHRASE"}) {
    EXPECT_TRUE(looks_secret(name, "x")) << name;
  }
  for (const char* name : {"PATH", "KEYBOARD", "OMP_NUM_THREADS", "NCCL_DEBUG", "PASS_COUNT", "AUTHOR"}) {
    EXPECT_FALSE(looks_secret(name, "x")) << name;
  }
  EXPECT_TRUE(looks_secret("PROXY", "http://ada:pw@proxy:3128/"));
  EXPECT_FALSE(looks_secret("PROXY", "http://proxy:3128/a@b:c"));
  EXPECT_FALSE(looks_secret("MAIL", "ada@example.org"));
}

// ---- Fingerprint ---------------------------------------------------------------------------------------

TEST(Fingerprint, HoldsWhatDecidesTheResult) {
  const auto base = fingerprint_of(kTrainer + "trainer: {epochs: 3}\n");
  EXPECT_EQ(base.at("entry_point"), "muster-train");
  EXPECT_EQ(base.at("data_path"), "/d");
  EXPECT_EQ(base.at("args"), "[]");
  EXPECT_EQ(base.at("trainer.epochs"), "3");
  EXPECT_EQ(base.at("trainer.hidden"), "512,256");
  for (const char* edit : {"epochs: 4",
                           "epochs: 3, hidden: [512]",
                           "epochs: 3, dropout: 0.1",
                           "epochs: 3, batch_size: 128",
                           "epochs: 3, activation: gelu",
                           "epochs: 3, layer_norm: true",
                           "epochs: 3, label_smoothing: 0.1",
                           "epochs: 3, model: lenet",
                           "epochs: 3, model: logistic",
                           "epochs: 3, seed: 2",
                           "epochs: 3, shards: 32",
                           "epochs: 3, optimizer: {name: sgd}",
                           "epochs: 3, optimizer: {learning_rate: 0.002}",
                           "epochs: 3, optimizer: {epsilon: 1e-7}",
                           "epochs: 3, schedule: {kind: constant}",
                           "epochs: 3, schedule: {warmup_steps: 1}",
                           "epochs: 3, schedule: {min_learning_rate: 1e-5}",
                           "epochs: 3, device: reference",
                           "epochs: 3, threads: 2",
                           "epochs: 3, allreduce: {algorithm: ring}",
                           "epochs: 3, reproducible: false",
                           "epochs: 3, on_nonfinite: skip",
                           "steps: 3"}) {
    EXPECT_NE(fingerprint_of(kTrainer + "trainer: {" + edit + "}\n"), base) << edit;
  }
  EXPECT_NE(fingerprint_of(kTrainer + "trainer: {epochs: 3}\nargs: [x]\n"), base);
  EXPECT_NE(fingerprint_of(kTrainer + "trainer: {epochs: 3}\nenv: {A: x}\n"), base);
}

TEST(Fingerprint, LeavesOutWhatDoesNot) {
  const auto base = fingerprint_of(kTrainer + "trainer: {epochs: 3}\n");
  for (const char* edit :
       {"checkpoint: {every_steps: 5}", "checkpoint: {every: 5s, keep_last: 9, keep_best: false}",
        "checkpoint: {every: auto, expected_mtbf: 8h}", "checkpoint: {background: false, timeout: 1m}",
        "log_every_steps: 1", "log_samples: true", "evaluate_every_epochs: 2",
        "allreduce: {timeout: 1m, peer_timeout: 5s}"}) {
    EXPECT_EQ(fingerprint_of(kTrainer + "trainer: {epochs: 3, " + edit + "}\n"), base) << edit;
  }
  for (const char* line : {"num_workers: 4", "ranks_per_worker: 2", "checkpoint_path: /elsewhere",
                           "resources: {cpus_per_worker: 4}", "schedule: {grace: 5s, priority: low}",
                           "network: {NCCL_DEBUG: INFO}"}) {
    EXPECT_EQ(fingerprint_of(kTrainer + "trainer: {epochs: 3}\n" + line + "\n"), base) << line;
  }
}

TEST(Fingerprint, ShowsThatASecretChangedAndNotTheSecret) {
  const auto one = fingerprint_of(kHead + "env: {API_TOKEN: one}\n");
  const auto two = fingerprint_of(kHead + "env: {API_TOKEN: two}\n");
  EXPECT_EQ(one.at("env.API_TOKEN"), "sha256:7692c3ad3540");  // of "one", by sha256sum
  EXPECT_NE(one, two);
}

// ---- Refusals and notices -------------------------------------------------------------------------------

TEST(Refusal, NamesEveryKeyWithItsPlace) {
  EXPECT_EQ(
      refusal_of(kHead + "image: /a.sqsh\ngpu_per_worker: 2\nresources:\n  gpu_type: a100\n"
                         "  time_limit: 2h\n  constraint: ib\n  exclude: n1\nmounts: [\"/a:/b\"]\n"),
      "task.yaml:3:1: image: found '/a.sqsh'; `muster run` does not start containers yet: remove the key\n"
      "task.yaml:4:1: gpu_per_worker: found 2; `muster run` does not start GPU jobs yet: remove the key, or "
      "make it 0\n"
      "task.yaml:6:3: resources.gpu_type: found 'a100'; `muster run` does not start GPU jobs yet: remove the "
      "key\n"
      "task.yaml:7:3: resources.time_limit: found 2h; `muster run` enforces no time limit: remove the key, "
      "or "
      "say unlimited\n"
      "task.yaml:8:3: resources.constraint: found 'ib'; only a scheduler knows node features: remove the "
      "key, "
      "or name the hosts with --hostfile\n"
      "task.yaml:9:3: resources.exclude: found nodes to leave out; `muster run` uses exactly the hosts of "
      "--hostfile: remove the key, and the nodes from the host file\n"
      "task.yaml:10:1: mounts: found mounts; without a container there is nothing to mount into: remove the "
      "key");
}

TEST(Refusal, CoversScheduleNetworkHooksAndTrainer) {
  EXPECT_EQ(
      refusal_of(kHead + "num_workers: 2\nschedule:\n  min_workers: 1\n  max_workers: 3\n  spare_workers: 1\n"
                         "network: {rdma: true}\nhooks: {after: x}\n"),
      "task.yaml:5:3: schedule.min_workers: found 1; `muster run` cannot go on with fewer workers yet: "
      "remove "
      "the key, or make it num_workers, which is 2\n"
      "task.yaml:6:3: schedule.max_workers: found 3; `muster run` cannot grow a run yet: remove the key, or "
      "make it num_workers, which is 2\n"
      "task.yaml:7:3: schedule.spare_workers: found 1; `muster run` holds no spare workers yet: remove the "
      "key, or make it 0\n"
      "task.yaml:8:11: network.rdma: found true; `muster run` cannot promise RDMA: remove the key (Open MPI "
      "then uses it if it can), or make it false\n"
      "task.yaml:9:9: hooks.after: found a hook; `muster run` does not run hooks yet: remove the key");
  EXPECT_EQ(
      refusal_of(kTrainer + "trainer:\n  epochs: 1\n  precision: bf16\n"),
      "task.yaml:6:3: trainer.precision: found 'bf16'; muster-train computes in fp32 only as yet: make it "
      "fp32");
}

// A run on this machine once passed here and was refused when it started.
TEST(Refusal, RanksGetOnlySignalsThatMpirunPassesOn) {
  PlanOptions on_hosts = options();
  on_hosts.hosts = {{"a", 1}};
  for (const PlanOptions& where : {options(), on_hosts}) {
    for (const std::string signal : {"SIGTERM", "SIGINT", "SIGHUP"}) {
      const auto plan = make_plan(parse(kHead + "schedule: {stop_signal: " + signal + "}\n"), where);
      ASSERT_FALSE(plan);
      EXPECT_EQ(plan.error().code, ErrorCode::kUnavailable);
      EXPECT_EQ(plan.error().message,
                "task.yaml:3:12: schedule.stop_signal: found " + signal +
                    ", which mpirun does not pass on to the ranks: make it SIGUSR1 or SIGUSR2");
    }
    for (const std::string signal : {"SIGUSR1", "SIGUSR2"}) {
      EXPECT_TRUE(make_plan(parse(kHead + "schedule: {stop_signal: " + signal + "}\n"), where));
    }
  }
}

TEST(Refusal, SparesWhatAsksForNothing) {
  const Plan plan =
      plan_of(kHead +
              "num_workers: 2\ngpu_per_worker: 0\nresources: {time_limit: unlimited}\nmounts: []\n"
              "schedule: {min_workers: 2, max_workers: 2, spare_workers: 0, preemptible: false, "
              "priority: normal}\nnetwork: {rdma: false}\nhooks: {}\n");
  EXPECT_THAT(plan.notices, IsEmpty());
}

TEST(Notice, SaysWhatHasNoMeaningOnBareMetal) {
  const Plan plan = plan_of(kHead +
                            "resources:\n  cpus_per_worker: 4\n  memory_per_worker: 1G\nschedule:\n"
                            "  priority: high\n  preemptible: true\n");
  EXPECT_THAT(
      plan.notices,
      ElementsAre("task.yaml:4:3: resources.cpus_per_worker: no scheduler reserves CPUs on bare metal; the "
                  "ranks share all of them",
                  "task.yaml:5:3: resources.memory_per_worker: no scheduler limits memory on bare metal; the "
                  "ranks share all of it",
                  "task.yaml:7:3: schedule.priority: there is no queue on bare metal; the run starts at once",
                  "task.yaml:8:3: schedule.preemptible: nothing preempts a run on bare metal"));
  EXPECT_THAT(plan_to_text(plan), HasSubstr("schedule.priority: there is no queue"));
}

}  // namespace
}  // namespace muster
