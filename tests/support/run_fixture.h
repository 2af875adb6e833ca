// Runs on disk for tests: a state directory and a checkpoint root of the test's own.
#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/journal.h"
#include "launcher/run_directory.h"
#include "tests/support/temporary_directory.h"

namespace muster::testing {

class RunFixture {
 public:
  RunFixture() { ::setenv("XDG_STATE_HOME", state().c_str(), 1); }

  std::filesystem::path root() const { return directory_.path() / "checkpoints"; }
  std::filesystem::path state() const { return directory_.path() / "state"; }

  Plan plan(const std::string& task_name = "mnist") const {
    Plan plan;
    plan.task_name = task_name;
    plan.task_file = "/tasks/" + task_name + ".yaml";
    plan.world_size = 2;
    plan.argv = {"/bin/true"};
    plan.checkpoint_root = root().string();
    plan.result_fingerprint = {{"trainer.seed", "1"}, {"trainer.steps", "10"}};
    return plan;
  }

  RunDirectory create(const std::string& task_name = "mnist") const {
    return create_run(plan(task_name), "task_name: " + task_name + "\n").value();
  }

  static void write_journal(const RunDirectory& run, const std::vector<nlohmann::json>& events) {
    auto journal = JournalWriter::open(run.journal());
    for (const nlohmann::json& event : events) {
      if (!journal.value().append(event, false)) throw std::runtime_error("cannot write the journal");
    }
  }

 private:
  TemporaryDirectory directory_;
};

}  // namespace muster::testing
