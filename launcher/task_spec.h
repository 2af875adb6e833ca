// What a task file says, checked. The file's keys, their meaning and defaults: docs/task_file.md.
// A TaskSpec is a value that nobody changes after load_task_file; it may be read from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/diagnostics.h"
#include "launcher/environment.h"
#include "launcher/retry_budgets.h"
#include "launcher/trainer_spec.h"

namespace muster {

struct ResourcesSpec {
  std::string gpu_type;                                 // empty: any
  int cpus_per_worker = 0;                              // 0: not said
  std::uint64_t memory_bytes = 0;                       // of each worker; 0: not said
  std::optional<std::chrono::milliseconds> time_limit;  // absent: none
  std::string constraint;
  std::vector<std::string> exclude;  // node names, or Slurm host lists
};

enum class Priority { kLow, kNormal, kHigh };

struct ScheduleSpec {
  Priority priority = Priority::kNormal;
  bool preemptible = false;
  int min_workers = 1;  // num_workers where the file says nothing; so max_workers
  int max_workers = 1;
  int spare_workers = 0;
  RetryBudgets retry;
  std::chrono::milliseconds grace{30'000};
  std::string stop_signal = "SIGUSR1";
};

struct MountSpec {
  std::string source;  // absolute, on the node
  std::string target;  // absolute, in the container
  bool read_only = false;
};

struct NetworkSpec {
  std::string interface;                       // empty: automatic
  std::optional<bool> rdma;                    // absent: automatic
  std::vector<EnvironmentVariable> variables;  // NCCL_*, UCX_*
};

struct HooksSpec {  // shell commands
  std::vector<std::string> on_preempt;
  std::vector<std::string> on_end;
  std::vector<std::string> before;
  std::vector<std::string> after;
};

struct TaskSpec {
  std::string file;         // absolute
  std::string shown_file;   // as it was named by the user: for messages
  std::string directory;    // absolute: the file's folder
  std::string source_text;  // the file, byte for byte

  std::string task_name;
  int num_workers = 1;
  int gpu_per_worker = 0;
  int ranks_per_worker = 1;
  std::string image;
  std::string entry_point;  // muster-train, an absolute path, or a command to be found on PATH
  std::vector<std::string> args;
  std::string data_path;        // absolute or empty
  std::string checkpoint_path;  // absolute or empty
  ResourcesSpec resources;
  ScheduleSpec schedule;
  std::optional<TrainerSpec> trainer;  // there exactly if is_trainer()
  std::vector<MountSpec> mounts;
  std::vector<EnvironmentVariable> env;
  NetworkSpec network;
  HooksSpec hooks;

  // Every key that the file gives, by full name ("resources.gpu_type"), with its place.
  std::map<std::string, SourcePosition> positions;

  bool is_trainer() const { return entry_point == "muster-train"; }
  bool has(const std::string& key) const { return positions.contains(key); }
};

// What a task file's text is read against.
struct TaskFileContext {
  std::string shown_file;
  std::string file;  // absolute
  std::string home;  // $HOME; empty: not set
  // Decides whether an entry point without a '/' is a file next to the task file or a command on PATH.
  std::function<bool(const std::string& path)> file_exists = [](const std::string&) { return false; };
};

// Pure. kInvalidArgument with one line for each error, `file:line:column: what was found; allowed: …`.
Result<TaskSpec> parse_task(std::string_view text, const TaskFileContext& context);

// Reads and parses. kNotFound or kIo if the file cannot be read.
Result<TaskSpec> load_task_file(const std::filesystem::path& path);

}  // namespace muster
