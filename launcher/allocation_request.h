// What a plan asks Slurm for: sizes, limits and names, the names already the site's. Made by make_plan; read
// by whoever writes the batch script and starts steps in the allocation. docs/slurm.md tells users the same.
//
// A worker is one of Slurm's tasks: its CPUs, memory and GPUs are granted on one node. Workers without GPUs
// share a node as far as they fit; a worker with GPUs has a node of its own, as steps that count GPUs by
// tasks cannot have more ranks than workers (Slurm 22.05), while those that count them by nodes can. So can a
// lone worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/site_profile.h"

namespace muster {

struct AllocationRequest {
  std::string job_name;
  int workers = 1;
  bool node_per_worker = false;        // then there are as many nodes as workers
  std::optional<int> nodes_max;        // without node_per_worker: the site's limit, where it matters
  int cpus_per_worker = 1;             // at least the ranks of a worker
  int gpus_per_worker = 0;             // with node_per_worker only
  std::string gres_type;               // Slurm's name for the GPUs; empty: any
  std::uint64_t memory_bytes = 0;      // of each worker; 0: the site's default
  std::chrono::seconds time_limit{0};  // above 0: never without end
  PriorityClass place;                 // QOS, partition, account, nice
  std::string constraint;
  std::vector<std::string> exclude;        // host lists
  std::vector<std::string> extra_options;  // the site's, whole: --licenses=a
  ProcessStart process_start = ProcessStart::kSrunPmix;
};

// "gpu:a100:4" for --gres of the allocation, and of every step in it: a step that leaves the type out of a
// typed allocation gets no GPUs. Empty without GPUs.
std::string gres_of(const AllocationRequest& request);

// What is wrong with a value as part of a batch script ("found 'a b'; options of a batch script cannot hold a
// space"): #SBATCH lines are split at spaces, unquoted, and end at a '#'. Empty: nothing.
std::string script_fault(const std::string& value);

}  // namespace muster
