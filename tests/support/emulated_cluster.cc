#include "tests/support/emulated_cluster.h"

#include <unistd.h>

#include <stdexcept>

namespace muster::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kCannotHere = 69;  // of scripts/cluster

}  // namespace

std::unique_ptr<EmulatedCluster> EmulatedCluster::start(const std::vector<std::string>& options,
                                                        std::string& reason) {
  if (::geteuid() != 0) {
    reason = "only root can make namespaces";
    return nullptr;
  }
  if (run_program({"sh", "-c", "command -v slurmctld && command -v slurmdbd && command -v mariadbd"})
          .exit_code != 0) {
    reason = "Slurm is not installed; scripts/install-deps cluster installs it";
    return nullptr;
  }
  std::unique_ptr<EmulatedCluster> cluster(
      new EmulatedCluster("/var/lib/muster-test-cluster-" + std::to_string(::getpid())));
  std::vector<std::string> words{"up", "--visible", MUSTER_SOURCE_DIR};
  words.insert(words.end(), options.begin(), options.end());
  const ProgramResult up = cluster->command(words);
  if (up.exit_code == 0) return cluster;
  std::string text = "the cluster does not come up: " + up.err;
  if (up.exit_code != kCannotHere) text += " (exit code " + std::to_string(up.exit_code) + ")";
  throw std::runtime_error(text);
}

EmulatedCluster::~EmulatedCluster() {
  if (fs::exists(directory_ / "settings.json")) command({"down"});
}

std::vector<std::string> EmulatedCluster::script(const std::vector<std::string>& words) const {
  std::vector<std::string> all{std::string(MUSTER_SOURCE_DIR) + "/scripts/cluster", "--dir",
                               directory_.string()};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

ProgramResult EmulatedCluster::command(const std::vector<std::string>& words) const {
  ProgramOptions options;
  options.timeout = std::chrono::seconds(180);
  return run_program(script(words), options);
}

ProgramResult EmulatedCluster::on(const std::string& host, const std::vector<std::string>& words,
                                  const ProgramOptions& options) const {
  std::vector<std::string> all{"exec", host};
  all.insert(all.end(), words.begin(), words.end());
  return run_program(script(all), options);
}

}  // namespace muster::testing
