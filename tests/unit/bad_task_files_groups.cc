// Task files with errors: the groups resources, schedule, mounts, env, network and hooks.
#include "tests/unit/bad_task_files.h"

namespace muster::testing {

namespace {

const std::string kHead = "task_name: t\nentry_point: prog\n";
const std::string kPaths = "an absolute path, or one that begins with ${TASK_DIR} or ${HOME}";
const std::string kMemory = "a size greater than 0, such as 512M, 64G (K, M, G or T, powers of 1024)";
const std::string kDurations = "such as 90s, 30m, 2h, 1h30m, 500ms, or Slurm's 30:00, 1:30:00, 1-12:30:00";
const std::string kMounts =
    "a list of SOURCE:TARGET, SOURCE:TARGET:ro or {source, target, read_only}, both paths absolute";
const std::string kEnvNames = "a name of letters, digits and '_', the first no digit";
const std::string kEnvValues = "a text (\"\" for an empty one), or {secret: text}";

}  // namespace

std::vector<BadTaskFile> bad_groups() {
  return {
      {"GroupIsAText", kHead + "resources: lots\n",
       "3:12: resources: found 'lots'; allowed: a group of keys"},
      {"GroupIsAList", kHead + "resources: [gpu_type]\n",
       "3:12: resources: found a list; allowed: a group of keys"},
      {"MemoryWithoutUnit", kHead + "resources: {memory_per_worker: 64}\n",
       "3:32: resources.memory_per_worker: found '64'; allowed: " + kMemory},
      {"MemoryInGigabytes", kHead + "resources: {memory_per_worker: 64 gigabytes}\n",
       "3:32: resources.memory_per_worker: found '64 gigabytes'; allowed: " + kMemory},
      {"MemoryIsZero", kHead + "resources: {memory_per_worker: 0G}\n",
       "3:32: resources.memory_per_worker: found '0G'; allowed: " + kMemory},
      {"MemoryOverflows", kHead + "resources: {memory_per_worker: 99999999T}\n",
       "3:32: resources.memory_per_worker: found '99999999T'; allowed: " + kMemory},
      {"TimeLimitWithoutUnit", kHead + "resources: {time_limit: 30}\n",
       "3:25: resources.time_limit: found '30'; allowed: a duration with a unit, from 1s to 365d, " +
           kDurations},
      {"TimeLimitWithBadClock", kHead + "resources: {time_limit: \"1:75:00\"}\n",
       "3:25: resources.time_limit: found the quoted text '1:75:00'; allowed: a duration with a unit, from "
       "1s to 365d, " +
           kDurations},
      {"TimeLimitInWords", kHead + "resources: {time_limit: two hours}\n",
       "3:25: resources.time_limit: found 'two hours'; allowed: a duration with a unit, from 1s to 365d, " +
           kDurations},
      {"TimeLimitTooLong", kHead + "resources: {time_limit: 999d}\n",
       "3:25: resources.time_limit: found '999d'; allowed: a duration with a unit, from 1s to 365d, " +
           kDurations},
      {"ExcludeIsAGroup", kHead + "resources: {exclude: {node1: true}}\n",
       "3:22: resources.exclude: found a group of keys; allowed: a text or a list of texts, none of them "
       "empty"},
      {"GpuTypeWithoutGpus", kHead + "resources: {gpu_type: a100}\n",
       "3:13: resources.gpu_type: found 'a100' while gpu_per_worker is 0; allowed: a GPU type only with "
       "gpu_per_worker of at least 1"},
      {"UnknownPriority", kHead + "schedule: {priority: hihg}\n",
       "3:22: schedule.priority: found 'hihg'; allowed: low, normal, high; did you mean 'high'?"},
      {"PriorityIsANumber", kHead + "schedule: {priority: 5}\n",
       "3:22: schedule.priority: found '5'; allowed: low, normal, high"},
      {"PreemptibleIsYes", kHead + "schedule: {preemptible: yes}\n",
       "3:25: schedule.preemptible: found 'yes'; allowed: true or false"},
      {"PreemptibleIsQuoted", kHead + "schedule: {preemptible: \"true\"}\n",
       "3:25: schedule.preemptible: found the quoted text 'true'; allowed: true or false"},
      {"MinWorkersAboveNumWorkers", kHead + "num_workers: 2\nschedule:\n  min_workers: 3\n",
       "5:3: schedule.min_workers: found 3; allowed: at most num_workers, which is 2"},
      {"MaxWorkersBelowNumWorkers", kHead + "num_workers: 4\nschedule:\n  max_workers: 3\n",
       "5:3: schedule.max_workers: found 3; allowed: at least num_workers, which is 4"},
      {"NegativeSpares", kHead + "schedule: {spare_workers: -1}\n",
       "3:27: schedule.spare_workers: found '-1'; allowed: a whole number from 0 to 65536"},
      {"MisspeltBudget", kHead + "schedule:\n  retry: {crash_total: 3}\n",
       "4:11: unknown key 'schedule.retry.crash_total'; did you mean 'crashes_total'? allowed here: "
       "crashes_total, crashes_without_progress, launcher_errors, node_failures"},
      {"BudgetIsNegative", kHead + "schedule:\n  retry: {crashes_total: -3}\n",
       "4:26: schedule.retry.crashes_total: found '-3'; allowed: a whole number from 0 to 1000000"},
      {"GraceWithoutUnit", kHead + "schedule: {grace: 30}\n",
       "3:19: schedule.grace: found '30'; allowed: a duration with a unit, from 1s to 1d, " + kDurations},
      {"GraceIsZero", kHead + "schedule: {grace: 0s}\n",
       "3:19: schedule.grace: found '0s'; allowed: a duration with a unit, from 1s to 1d, " + kDurations},
      {"EmptyTextsInLists", kHead + "resources: {exclude: [a, '']}\nhooks: {after: ''}\n",
       "3:26: resources.exclude: found the quoted text ''; allowed: a text that is not empty\n"
       "4:16: hooks.after: found the quoted text ''; allowed: a text or a list of texts, none of them empty"},
      {"EmptyMounts", kHead + "mounts: [':/b', {source: '', target: ''}]\n",
       "3:10: mounts: found an empty path; allowed: a list of SOURCE:TARGET, SOURCE:TARGET:ro or {source, "
       "target, read_only}, both paths absolute\n"
       "3:26: mounts.source: found the quoted text ''; allowed: an absolute path, or one that begins with "
       "${TASK_DIR} or ${HOME}\n"
       "3:38: mounts.target: found the quoted text ''; allowed: an absolute path, or one that begins with "
       "${TASK_DIR} or ${HOME}"},
      {"UnknownSignal", kHead + "schedule: {stop_signal: SIGUSR3}\n",
       "3:25: schedule.stop_signal: found 'SIGUSR3'; allowed: SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP; did "
       "you mean 'SIGUSR1'?"},
      {"SignalThatCannotBeCaught", kHead + "schedule: {stop_signal: SIGKILL}\n",
       "3:25: schedule.stop_signal: found 'SIGKILL'; allowed: SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP"},
      {"MountsIsAText", kHead + "mounts: /a:/b\n", "3:9: mounts: found '/a:/b'; allowed: " + kMounts},
      {"RelativeMount", kHead + "mounts: [data:/data]\n",
       "3:10: mounts: found the relative path 'data'; allowed: " + kMounts},
      {"MountWithBadMode", kHead + "mounts: [\"/a:/b:rx\"]\n",
       "3:10: mounts: found '/a:/b:rx'; allowed: " + kMounts},
      {"MountWithoutTarget", kHead + "mounts:\n  - /a\n  - {source: /a}\n",
       "4:5: mounts: found '/a'; allowed: " + kMounts +
           "\n5:5: mounts.target: the key is missing; allowed: " + kPaths},
      {"RelativeMountTarget", kHead + "mounts: [{source: /a, target: b}]\n",
       "3:31: mounts.target: found the relative path 'b'; allowed: " + kPaths},
      {"EnvNameBeginsWithDigit", kHead + "env:\n  2FAST: x\n",
       "4:3: env.2FAST: found a name that is none of an environment variable; allowed: " + kEnvNames},
      {"EnvNameWithDash", kHead + "env:\n  MY-VAR: x\n",
       "4:3: env.MY-VAR: found a name that is none of an environment variable; allowed: " + kEnvNames},
      {"EnvSetsRank", kHead + "env:\n  RANK: 0\n",
       "4:3: env.RANK: found a variable that muster, MPI or Slurm sets for each rank; allowed: other names"},
      {"EnvSetsMusterVariable", kHead + "env:\n  MUSTER_RUN_ID: x\n",
       "4:3: env.MUSTER_RUN_ID: found a variable that muster, MPI or Slurm sets for each rank; allowed: "
       "other names"},
      {"EnvSetsMpiVariable", kHead + "env:\n  OMPI_COMM_WORLD_RANK: 0\n",
       "4:3: env.OMPI_COMM_WORLD_RANK: found a variable that muster, MPI or Slurm sets for each rank; "
       "allowed: other names"},
      {"EnvValueIsNothing", kHead + "env:\n  A:\n", "4:3: env.A: found nothing; allowed: " + kEnvValues},
      {"EnvValueIsAList", kHead + "env:\n  A: [1, 2]\n", "4:6: env.A: found a list; allowed: " + kEnvValues},
      {"SecretWithoutValue", kHead + "env:\n  A: {secret: }\n",
       "4:6: env.A: found a group of keys; allowed: " + kEnvValues},
      {"SecretMisspelt", kHead + "env:\n  A: {secrte: hunter2}\n",
       "4:6: env.A: found a group of keys; allowed: " + kEnvValues},
      {"EnvIsAList", kHead + "env: [A=1]\n", "3:6: env: found a list; allowed: a group of keys"},
      {"DuplicateEnv", kHead + "env: {A: 1, A: 2}\n",
       "3:13: key 'A' was already given at line 3, column 7; allowed: each key once"},
      {"UnknownNetworkVariable", kHead + "network: {NCLL_DEBUG: INFO}\n",
       "3:11: unknown key 'network.NCLL_DEBUG'; allowed here: NCCL_*, UCX_*, interface, rdma"},
      {"InterfaceIsAList", kHead + "network: {interface: [eth0]}\n",
       "3:22: network.interface: found a list; allowed: the name of a network interface, such as eth0 or "
       "ib0"},
      {"InterfaceNameTooLong", kHead + "network: {interface: averylonginterface}\n",
       "3:22: network.interface: found 'averylonginterface'; allowed: the name of a network interface, such "
       "as eth0 or ib0"},
      {"RdmaIsAText", kHead + "network: {rdma: maybe}\n",
       "3:17: network.rdma: found 'maybe'; allowed: true or false"},
      {"NetworkVariableIsAGroup", kHead + "network: {NCCL_DEBUG: {a: b}}\n",
       "3:23: network.NCCL_DEBUG: found a group of keys; allowed: a text"},
      {"VariableSetTwice", kHead + "env: {NCCL_DEBUG: INFO}\nnetwork: {NCCL_DEBUG: WARN}\n",
       "4:11: network.NCCL_DEBUG: found a variable that env.NCCL_DEBUG sets, too; allowed: one of the two"},
      {"MisspeltHook", kHead + "hooks: {on_preemt: save.sh}\n",
       "3:9: unknown key 'hooks.on_preemt'; did you mean 'on_preempt'? allowed here: after, before, on_end, "
       "on_preempt"},
      {"HookIsAGroup", kHead + "hooks: {before: {run: x}}\n",
       "3:17: hooks.before: found a group of keys; allowed: a text or a list of texts, none of them empty"},
  };
}

}  // namespace muster::testing
