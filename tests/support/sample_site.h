// A site as a profile may describe one, for tests of plans for Slurm.
#pragma once

#include "launcher/site_profile.h"

namespace muster::testing {

// The names are those of the emulated cluster (scripts/cluster up --gpus a100:4), so that its scripts are
// accepted.
inline SiteProfile sample_site() {
  SiteProfile site;
  site.cluster = "emulated";
  site.low.qos = "low";
  site.normal.qos = "normal";
  site.high = {"high", "batch", "research", 10};
  site.gpus["a100"] = {"a100", {"ampere", "A100-SXM4-80GB"}};
  site.gpus["h100"] = {"nvidia_h100_80gb_hbm3", {"hopper"}};
  site.network_interface = "ib0";
  site.environment = {{"NCCL_IB_HCA", "mlx5_0,mlx5_1", false}, {"NCCL_DEBUG", "WARN", false}};
  site.sbatch_options = {"--exclusive=user"};
  site.limits.default_time = std::chrono::hours(4);
  site.limits.max_time = std::chrono::hours(48);
  site.limits.max_nodes = 4;
  site.preemption = {"preempt/qos", "REQUEUE", std::chrono::seconds(15)};
  return site;
}

}  // namespace muster::testing
