// The plan: what will be started where, with which environment and argv. A pure function of the task
// specification, of what was asked on the command line and, for Slurm, of the site's profile; it reads and
// starts nothing.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "launcher/allocation_request.h"
#include "launcher/environment.h"
#include "launcher/hostfile.h"
#include "launcher/retry_budgets.h"

namespace muster {

struct TaskSpec;

struct Plan {
  std::string task_name;
  std::string task_file;  // absolute
  int num_workers = 1;
  int ranks_per_worker = 1;
  int world_size = 1;
  std::vector<std::string> argv;  // the program of every rank, argv[0] resolved as far as it can be
  std::vector<EnvironmentVariable> environment;  // from the task file's env and network groups
  std::string working_directory;                 // absolute: the task file's folder
  std::string checkpoint_root;                   // absolute: run directories are made below it
  std::string data_path;                         // absolute or empty
  std::string init_from;                         // of the trainer: absolute or empty
  std::string stop_signal = "SIGUSR1";
  std::chrono::milliseconds grace{30000};  // from the stop signal to the kill
  std::string network_interface;           // empty: automatic
  RetryBudgets retry;
  bool rdma_allowed = true;  // false: TCP and shared memory only
  std::vector<Host> hosts;   // as in the host file; empty: this machine
  std::vector<Host>
      placement;             // the hosts that take part, `slots` being the ranks of each; empty: this machine
  bool run_as_root = false;  // mpirun wants to be told
  std::string rsh_agent;     // empty: mpirun's own choice (ssh)
  bool is_trainer = false;   // argv[0] is muster-train
  std::optional<AllocationRequest>
      allocation;  // on Slurm; none: bare metal, `hosts` and `placement` say where
  // What in the task decides the result, as a flat object "trainer.seed": 1 …: two plans with equal
  // fingerprints give the same weights. Used to refuse a continuation after an edit.
  std::vector<std::pair<std::string, std::string>> result_fingerprint;
  // What the task file asks for and the target has no use for (a priority without a queue), or understands in
  // a way that might surprise: to be shown to the user, one line each.
  std::vector<std::string> notices;
  // Where the task file names what must be there, by key ("data_path"): FILE:LINE:COLUMN, for messages.
  std::map<std::string, std::string> places;
};

// The key of result_fingerprint for the identity of the checkpoint at trainer.init_from, while one is there.
inline constexpr const char* kInitFromIdentity = "trainer.init_from.sha256";

struct PlanOptions {
  const SiteProfile* slurm_site = nullptr;  // for Slurm at this site; null: bare metal. Outlives make_plan.
  std::vector<Host> hosts;                  // from --hostfile
  std::string rsh_agent;
  std::string trainer_executable;       // where muster-train is; empty: not installed
  std::string default_checkpoint_root;  // absolute: for a task without checkpoint_path
  bool run_as_root = false;
  std::string init_from_sha256;  // identity of the checkpoint at trainer.init_from; empty: none is seen
};

// Fails with kUnavailable if the task asks for what cannot be honoured (anywhere yet: a container image,
// spare workers …; on bare metal: a GPU, a time limit …; on Slurm: what the site does not know or allow),
// naming each such key with its place in the file, one line each; or if the hosts are too few.
Result<Plan> make_plan(const TaskSpec& spec, const PlanOptions& options);

// Secrets are ***.
nlohmann::json plan_to_json(const Plan& plan);
nlohmann::json environment_to_json(const Plan& plan);  // an object: NAME: value
std::string plan_to_text(const Plan& plan);

// mpirun's command line for one attempt (without the environment): pure, used by the launcher and shown by
// `plan`. `hostfile` is the path of a host file with the attempt's hosts, empty for this machine. mpirun
// passes SIGUSR1 and SIGUSR2 on to every rank by itself.
std::vector<std::string> mpirun_argv(const Plan& plan, const std::string& muster_executable,
                                     const std::string& attempt_environment_file,
                                     const std::string& hostfile);

}  // namespace muster
