// The guard: a small process between muster and mpirun. It is a child subreaper, so every process that the
// attempt ever makes, also one that double-forks or changes its session, stays its descendant. It ends all of
// them when muster asks for it, when mpirun ends, or when muster itself dies (its end of the control socket
// closes), and reports mpirun's exact exit status only once nothing of the attempt is left.
//
// It is a fresh `muster guard` (a hidden subcommand), started with posix_spawn: no fork of a process that may
// have threads. It lives in a session of its own, so a terminal's Ctrl-C reaches neither it nor mpirun.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/process_launcher.h"

namespace muster {

// The body of `muster guard CONTROL_FD SCRATCH -- COMMAND…`. Takes the command's standard output and error to
// be its own file descriptors 1 and 2. Removes the directory `scratch` (unless empty) when nothing is left.
int guard_main(int control_fd, const std::string& scratch, const std::vector<std::string>& command);

struct GuardOptions {
  std::string muster_executable;
  std::vector<std::string> command;      // argv; argv[0] is looked up in PATH
  std::vector<std::string> environment;  // NAME=value
  std::string working_directory;         // empty: this process's
  std::string scratch_directory;         // removed at the end; empty: none
  int stdout_fd = -1;
  int stderr_fd = -1;
};

// muster's end. Destroying it ends everything that is guarded, and waits for that.
class Guard {
 public:
  static Result<Guard> spawn(const GuardOptions& options);

  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&& other) = delete;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard();

  // Readable when poll() has something new.
  int fd() const { return control_.get(); }
  pid_t pid() const { return pid_; }

  Status signal_command(int signal);
  // Asks for the end of everything. The command gets SIGTERM and a moment to clear up first.
  void kill();

  // Set once nothing is left. If the guard itself was killed, what it guarded has been ended by then too
  // (this process is a subreaper), and the status is SIGKILL's.
  std::optional<ExitStatus> poll();
  // Why the command could not be started, if it could not; poll() then gives exit code 127.
  const std::string& start_error() const { return start_error_; }

 private:
  Guard(UniqueFd control, pid_t pid) : control_(std::move(control)), pid_(pid) {}
  Status send(const std::string& message);
  void reap();

  UniqueFd control_;
  pid_t pid_ = -1;  // -1: reaped, or moved from
  std::optional<ExitStatus> exit_;
  std::string start_error_;
};

}  // namespace muster
