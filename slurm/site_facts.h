// What could be read out of a cluster's outputs, before it is written down. Private to site detection.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "slurm/site_detection.h"

namespace muster::slurm {

struct PartitionFacts {
  std::string name;
  bool is_default = false;
  bool is_up = true;
  bool may_be_preempted = true;                           // PreemptMode is not OFF
  std::optional<std::int64_t> tier;                       // PriorityTier
  std::optional<std::chrono::milliseconds> max_time;      // nothing: unlimited, or not known
  std::optional<std::chrono::milliseconds> default_time;  // nothing: none
  std::optional<std::chrono::milliseconds> grace;
  std::optional<int> max_nodes;
};

struct QosFacts {
  std::string name;
  std::int64_t priority = 0;
  std::optional<std::chrono::milliseconds> grace;
  bool may_be_preempted = false;  // another one's Preempt names it
};

struct GpuFacts {
  std::uint64_t total = 0;
  std::uint64_t nodes = 0;
  std::uint64_t of_a_node_min = 0;
  std::uint64_t of_a_node_max = 0;
};

struct SiteFacts {
  std::string user;
  std::string cluster;
  std::string slurm_version;
  std::string preempt_type;
  std::string preempt_mode;
  std::optional<std::chrono::milliseconds> requeue_hold;
  bool requeue_hold_is_the_default = false;  // slurm.conf does not say it
  std::optional<bool> job_requeue;
  std::optional<bool> accounting;
  std::vector<PartitionFacts> partitions;
  std::map<std::string, GpuFacts> gpus;  // by GRES type; "" for GPUs without one
  bool gpus_known = false;
  std::vector<QosFacts> qos;  // those that the user may use
  std::string default_qos;
  std::vector<std::string> accounts;
  std::vector<std::string> mpi_types;
  std::vector<std::string> unknown;  // "WHAT, because WHY"
};

SiteFacts read_site_facts(const SiteOutputs& outputs);
std::string site_facts_to_yaml(const SiteFacts& facts);

// Which of the candidates stand for low, normal and high; in this order. Nothing where it could be otherwise.
struct ClassCandidate {
  std::string name;
  std::int64_t priority = 0;
  bool is_default = false;
};
struct PriorityGuess {
  std::string low;  // empty: none
  std::string normal;
  std::string high;
};
std::optional<PriorityGuess> guess_priorities(std::vector<ClassCandidate> candidates);

}  // namespace muster::slurm
