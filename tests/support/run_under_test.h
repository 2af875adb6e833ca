// A task file in a directory of its own, and `muster run` on it as a child process that a test may disturb.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace muster::testing {

class RunUnderTest {
 public:
  // `task`: the task file's text; checkpoint_path and the state directory lie in the test's own directory.
  explicit RunUnderTest(const std::string& task);
  ~RunUnderTest();  // kills a muster that still runs

  // Replaces the task file.
  void write_task(const std::string& task) const;

  void start(std::vector<std::string> arguments = {});
  pid_t pid() const { return pid_; }
  // The exit code (128 + N for signal N) of the muster that start() started; -1 if it did not end in time.
  int wait(std::chrono::seconds timeout = std::chrono::seconds(120));
  int run(std::vector<std::string> arguments = {}) {
    start(std::move(arguments));
    return wait();
  }
  // What it printed, both streams.
  std::string output() const;

  // Empty before there is one.
  std::filesystem::path run_directory() const;
  // Events read so far; each call reads what is new.
  const std::vector<nlohmann::json>& events();
  // Polls the journal until the predicate holds for some event, or the deadline passes.
  bool wait_for(const std::function<bool(const nlohmann::json&)>& predicate,
                std::chrono::seconds timeout = std::chrono::seconds(60));

  // `muster checkpoint hash`: the canonical hash of the last committed checkpoint.
  std::string hash() const;

  // mpirun of the current attempt, and the program of a rank (from the last `exec` event). 0: not found.
  pid_t mpirun_pid() const;
  pid_t rank_pid(int rank);

  // Processes that carry this run's id, on the whole machine.
  std::vector<pid_t> processes() const;

 private:
  std::vector<std::string> muster_argv(std::vector<std::string> arguments) const;

  TemporaryDirectory directory_;
  pid_t pid_ = -1;
  std::vector<nlohmann::json> events_;
  std::uintmax_t journal_read_bytes_ = 0;
};

// Sample ids by epoch, each step as the last attempt that computed it saw it: what really went into the
// result.
std::map<std::int64_t, std::vector<std::int64_t>> samples_by_epoch(const std::vector<nlohmann::json>& events);

// mlp on 8×8 digits with everything that a restart could get wrong: dropout, AdamW, warm-up, a ragged last
// batch. 24 steps an epoch.
std::string demanding_task(int workers, int epochs);

}  // namespace muster::testing
