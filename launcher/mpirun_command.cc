// mpirun's command line (Open MPI 4.1).
#include <initializer_list>
#include <string>
#include <vector>

#include "launcher/plan.h"

namespace muster {

std::vector<std::string> mpirun_argv(const Plan& plan, const std::string& muster_executable,
                                     const std::string& attempt_environment_file,
                                     const std::string& hostfile) {
  std::vector<std::string> argv{"mpirun"};
  const auto add = [&](std::initializer_list<const char*> words) {
    argv.insert(argv.end(), words.begin(), words.end());
  };
  const auto set_parameter = [&](const char* name, const std::string& value) {
    add({"--mca", name});
    argv.push_back(value);
  };
  if (plan.run_as_root) add({"--allow-run-as-root"});
  // mpirun would bind each of two ranks, with all its helper threads, to one core.
  add({"--bind-to", "none", "--tag-output", "--stdin", "none"});
  // Otherwise it holds messages back to count equal ones.
  set_parameter("orte_base_help_aggregate", "0");
  // The plan names the hosts: an allocation that muster happens to be called in does not.
  set_parameter("ras", "^slurm,tm,lsf,gridengine");
  set_parameter("plm", "^slurm,tm,lsf");
  if (hostfile.empty()) {
    // The task says how many ranks this machine is to hold, whatever its cores.
    add({"--oversubscribe"});
  } else {
    add({"--hostfile"});
    argv.push_back(hostfile);
    add({"--map-by", "slot", "--nooversubscribe"});
  }
  if (!plan.rsh_agent.empty()) set_parameter("plm_rsh_agent", plan.rsh_agent);
  if (!plan.network_interface.empty()) {
    set_parameter("btl_tcp_if_include", plan.network_interface);
    set_parameter("oob_tcp_if_include", plan.network_interface);
  }
  if (!plan.rdma_allowed) {
    set_parameter("pml", "ob1");
    set_parameter("btl", "self,vader,tcp");
  }
  add({"--wdir"});
  argv.push_back(plan.working_directory);
  add({"-np"});
  argv.push_back(std::to_string(plan.world_size));
  argv.push_back(muster_executable);
  add({"exec", "--environment"});
  argv.push_back(attempt_environment_file);
  add({"--"});
  argv.insert(argv.end(), plan.argv.begin(), plan.argv.end());
  return argv;
}

}  // namespace muster
