// muster's end of the guard.
#include "launcher/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <sstream>

#include "common/clock.h"
#include "common/file_ops.h"
#include "launcher/process_tree.h"
#include "launcher/spawn_settings.h"

namespace muster {
namespace {

using std::chrono::seconds;

// The guard gives up on processes stuck in the kernel earlier than this.
constexpr seconds kEndWait{45};
constexpr seconds kOrphanWait{10};

// A number above those that the spawned process gets by dup2, so that no dup2 overwrites the control socket.
constexpr int kControlFd = 3;

}  // namespace

Result<Guard> Guard::spawn(const GuardOptions& options) {
  std::array<int, 2> pair{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return fail(ErrorCode::kIo, "cannot make the guard's socket: {}", errno_text(errno));
  }
  UniqueFd ours(pair[0]);
  const UniqueFd theirs(pair[1]);
  // If the guard itself is killed, its orphans become ours instead of init's.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);

  SpawnSettings settings;
  ::posix_spawn_file_actions_addopen(&settings.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&settings.files, options.stdout_fd, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.files, options.stderr_fd, STDERR_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.files, theirs.get(), kControlFd);
  if (!options.working_directory.empty()) {
    ::posix_spawn_file_actions_addchdir_np(&settings.files, options.working_directory.c_str());
  }
  settings.set_flags_and_default_signals(POSIX_SPAWN_SETSID);

  std::vector<std::string> argv{options.muster_executable, "guard", std::to_string(kControlFd),
                                options.scratch_directory, "--"};
  argv.insert(argv.end(), options.command.begin(), options.command.end());
  pid_t pid = -1;
  const int error =
      ::posix_spawn(&pid, options.muster_executable.c_str(), &settings.files, &settings.attributes,
                    c_strings(argv).data(), c_strings(options.environment).data());
  if (error != 0) {
    return fail(ErrorCode::kIo, "cannot start the guard {}: {}", options.muster_executable,
                errno_text(error));
  }
  return Guard(std::move(ours), pid);
}

Guard::Guard(Guard&& other) noexcept
    : control_(std::move(other.control_)),
      pid_(std::exchange(other.pid_, -1)),
      exit_(other.exit_),
      start_error_(std::move(other.start_error_)) {}

Guard::~Guard() {
  if (pid_ < 0) return;
  kill();
  const Deadline deadline = Deadline::after(kEndWait);
  while (!poll() && !deadline.expired()) {
    pollfd entry{control_.get(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(deadline.remaining().count()));
  }
  reap();
}

void Guard::reap() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);  // it has nothing left to do, and a stopped one would keep us waiting
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

Status Guard::send(const std::string& message) {
  if (::send(control_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return fail(ErrorCode::kIo, "the guard does not take '{}': {}", message, errno_text(errno));
  }
  return {};
}

Status Guard::signal_command(int signal) { return send("signal " + std::to_string(signal)); }

void Guard::kill() {
  if (const Status sent = send("kill"); !sent) ::shutdown(control_.get(), SHUT_WR);  // its other cue
}

std::optional<ExitStatus> Guard::poll() {
  std::array<char, 512> buffer{};
  while (!exit_) {
    const ssize_t got = ::recv(control_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {  // killed: its orphans are ours now
      reap();
      end_all_descendants(Deadline::after(kOrphanWait));
      exit_ = ExitStatus{0, SIGKILL};
      break;
    }
    const std::string message(buffer.data(), static_cast<std::size_t>(got));
    std::istringstream words(message);
    std::string kind;
    words >> kind;
    if (kind == "failed") {
      int error = 0;
      words >> error;
      start_error_ = errno_text(error);
      exit_ = ExitStatus{127, 0};
    } else if (kind == "exited") {
      ExitStatus status;
      words >> status.exit_code >> status.term_signal;
      exit_ = status;
    }
  }
  if (exit_) reap();
  return exit_;
}

}  // namespace muster
