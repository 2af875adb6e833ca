// A real Slurm cluster on this machine for tests: scripts/cluster up, down and all in between. One start
// serves a whole test executable (see ClusterEnvironment).
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/subprocess.h"

namespace muster::testing {

class EmulatedCluster {
 public:
  // Null, with the reason, if this machine or user cannot have one: the test is skipped. A cluster that could
  // be there but does not come up throws. `options` are those of `scripts/cluster up`.
  static std::unique_ptr<EmulatedCluster> start(const std::vector<std::string>& options, std::string& reason);
  ~EmulatedCluster();  // nothing is left
  EmulatedCluster(const EmulatedCluster&) = delete;
  EmulatedCluster& operator=(const EmulatedCluster&) = delete;

  static constexpr const char* kController = "ctl";
  static std::string node(int number) { return "n" + std::to_string(number); }
  // What all hosts see; users work here.
  std::filesystem::path shared() const { return directory_ / "shared"; }
  std::filesystem::path directory() const { return directory_; }

  // scripts/cluster WORDS…
  ProgramResult command(const std::vector<std::string>& words) const;
  // A command on a host.
  ProgramResult on(const std::string& host, const std::vector<std::string>& words,
                   const ProgramOptions& options = ProgramOptions()) const;
  ProgramResult on_controller(const std::vector<std::string>& words,
                              const ProgramOptions& options = ProgramOptions()) const {
    return on(kController, words, options);
  }

 private:
  explicit EmulatedCluster(std::filesystem::path directory) : directory_(std::move(directory)) {}
  std::vector<std::string> script(const std::vector<std::string>& words) const;

  std::filesystem::path directory_;
};

// Starts the cluster before the first test of an executable and ends it after the last. Its nodes count four
// GPUs each, which are not there.
class ClusterEnvironment : public ::testing::Environment {
 public:
  void SetUp() override { cluster = EmulatedCluster::start({"--gpus", "a100:4"}, reason); }
  void TearDown() override { cluster.reset(); }

  static inline std::unique_ptr<EmulatedCluster> cluster;
  static inline std::string reason;
};

// Base of tests on the shared cluster.
class ClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (ClusterEnvironment::cluster == nullptr) GTEST_SKIP() << ClusterEnvironment::reason;
  }
  static EmulatedCluster& cluster() { return *ClusterEnvironment::cluster; }
};

}  // namespace muster::testing
