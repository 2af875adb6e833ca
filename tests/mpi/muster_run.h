// A real `muster run` for tests: its own task folder, state directory and checkpoint root; started as a child
// process; everything it says and leaves behind can be looked at.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "tests/support/temporary_directory.h"

namespace muster::testing {

// One task and the commands on it.
class TaskFolder {
 public:
  // The program of every rank: a Python script. `more` is appended to the task file.
  TaskFolder(const std::string& python, const std::string& more = "");
  ~TaskFolder();  // ends what a failed test left running

  void write(const std::string& name, const std::string& text) const;
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }

  // Starts `muster run task.yaml OPTIONS…` in the background; at most one at a time.
  void start(const std::vector<std::string>& options = {});
  // Waits for it: its exit code, or 1000 + the signal that ended it.
  int wait();
  int run(const std::vector<std::string>& options = {}) {
    start(options);
    return wait();
  }
  pid_t pid() const { return pid_; }
  void signal(int signal) const;
  std::string output() const;  // of the last command, both streams

  // Of the newest run; empty or none before there is one.
  std::filesystem::path run_directory() const;
  std::string run_id() const { return run_directory().filename().string(); }
  std::vector<nlohmann::json> events(const std::string& kind = "") const;
  bool has_event(const std::string& kind, std::size_t count = 1) const {
    return events(kind).size() >= count;
  }
  // The process of a rank of the newest attempt, from its exec event; waits for it.
  pid_t rank_pid(int rank, int attempt) const;
  // Live processes that carry the run's id.
  std::vector<pid_t> processes() const;
  std::string log(int attempt, const std::string& name) const;

 private:
  TemporaryDirectory directory_;
  pid_t pid_ = -1;
};

pid_t parent_of(pid_t pid);

}  // namespace muster::testing
