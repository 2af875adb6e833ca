// What a site calls things: one file maps a task's words (priority high, gpu_type a100, a container image) to
// the cluster's QOS, partition, GRES type and container runtime, so that a task file fits every site.
// docs/site_profile.md tells administrators the same.
//
// Three files are read, where they are there; later ones replace single keys of earlier ones:
//   /etc/muster/site.yaml, ~/.config/muster/site.yaml ($XDG_CONFIG_HOME), the file that $MUSTER_SITE names.
// A SiteProfile is a value that nobody changes after it was loaded; it may be read from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/diagnostics.h"
#include "launcher/environment.h"
#include "launcher/task_spec.h"

namespace muster {

// Where a job of one priority goes. Empty: the site's default, so the option is not given.
struct PriorityClass {
  std::string qos;
  std::string partition;
  std::string account;
  std::optional<int> nice;
};

struct GpuType {
  std::string gres_type;  // Slurm's name, for --gres=gpu:TYPE:N
  std::vector<std::string> aliases;
};

enum class ContainerRuntime { kNone, kPyxis, kApptainer };

// How the ranks of an allocation are started.
enum class ProcessStart { kSrunPmix, kSrunPmi2, kMpirun };

struct PreemptionFacts {
  std::string type;  // Slurm's words: preempt/qos, preempt/partition_prio, preempt/none; empty: not known
  std::string mode;  // REQUEUE, CANCEL, …
  std::optional<std::chrono::milliseconds> grace;
};

struct SiteLimits {
  // Given to a task without a time limit (a job without a finite one waits behind every maintenance), and the
  // most that a task may ask for.
  std::chrono::milliseconds default_time{std::chrono::hours{1}};
  std::optional<std::chrono::milliseconds> max_time;
  std::optional<int> max_nodes;
};

struct SiteProfile {
  std::string cluster;  // Slurm's ClusterName; empty: not said
  PriorityClass low;
  PriorityClass normal;
  PriorityClass high;
  std::map<std::string, GpuType> gpus;  // by the name that task files use
  ContainerRuntime container = ContainerRuntime::kNone;
  ProcessStart process_start = ProcessStart::kSrunPmix;
  std::string network_interface;  // empty: automatic
  std::vector<EnvironmentVariable>
      environment;  // NCCL_*, UCX_* and others for every rank; the task's own win
  std::chrono::milliseconds polling_interval{
      std::chrono::seconds{10}};            // between two queries of the controller
  std::vector<std::string> sbatch_options;  // whole options, "--licenses=a"
  SiteLimits limits;
  PreemptionFacts preemption;
  // How long Slurm holds a requeued job (AuthInfo=cred_expire of slurm.conf). Absent: not known.
  std::optional<std::chrono::milliseconds> requeue_hold;
  std::optional<bool> job_requeue;  // JobRequeue of slurm.conf
  std::optional<bool> accounting;   // sacct answers

  // Every key that a file gives, by full name ("priority.high.qos"), with the file and the place in it.
  struct Origin {
    std::string file;
    SourcePosition position;
  };
  std::map<std::string, Origin> origins;

  const PriorityClass& priority(Priority priority) const;
  // By name or alias; null: not known here.
  const GpuType* find_gpu(std::string_view name) const;
};

// One file's text.
struct SiteFile {
  std::string name;  // as it is shown
  std::string text;
};

// Pure. Later files win, key by key. kInvalidArgument with one line for each error,
// `file:line:column: what was found; allowed: …`.
Result<SiteProfile> parse_site_profile(const std::vector<SiteFile>& files);

// The files that are there. A file that is not there is passed over, except one that $MUSTER_SITE names:
// kNotFound. kIo if one cannot be read.
Result<std::vector<SiteFile>> find_site_files();
Result<SiteProfile> load_site_profile();

}  // namespace muster
