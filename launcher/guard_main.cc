// The guard process itself.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/clock.h"
#include "common/file_ops.h"
#include "launcher/guard.h"
#include "launcher/process_tree.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// mpirun's own clearing away (its daemons on other nodes, session files) takes about a second after SIGTERM.
constexpr milliseconds kTermWait{3000};
constexpr seconds kSweepWait{30};
// How often the guard looks for processes that outlived their rank.
constexpr milliseconds kLookInterval{1000};

struct GuardState {
  int control = -1;
  pid_t command = -1;
  bool command_alive = true;
  ExitStatus status;
  bool ending = false;
  Deadline term_deadline = Deadline::after(milliseconds(0));
  bool only_orphans_before = false;
};

void report(int control, const std::string& message) {
  // Nobody may be listening any more; the guard's work is the same.
  [[maybe_unused]] const ssize_t sent =
      ::send(control, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

[[noreturn]] void become(const std::vector<std::string>& command, const sigset_t& mask, pid_t guard,
                         int error_fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  int error = ESRCH;
  if (::getppid() == guard) {
    std::vector<char*> argv;
    argv.reserve(command.size() + 1);
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    error = errno;
  }
  [[maybe_unused]] const ssize_t written = ::write(error_fd, &error, sizeof error);
  ::_exit(127);
}

// 0, or the errno of the exec that failed.
int start_command(GuardState& state, const std::vector<std::string>& command, const sigset_t& mask) {
  std::array<int, 2> pipe_fds{-1, -1};
  if (::pipe2(pipe_fds.data(), O_CLOEXEC) != 0) return errno;
  UniqueFd reader(pipe_fds[0]);
  UniqueFd writer(pipe_fds[1]);
  const pid_t guard = ::getpid();
  state.command = ::fork();
  if (state.command < 0) return errno;
  if (state.command == 0) become(command, mask, guard, writer.get());
  writer.reset();
  int error = 0;
  const bool failed = ::read(reader.get(), &error, sizeof error) == sizeof error;
  return failed ? error : 0;
}

// The output pipes must see end of file when the command's processes are gone, not when the guard is.
void let_go_of_output() {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(null.get(), STDOUT_FILENO);
  ::dup2(null.get(), STDERR_FILENO);
}

void reap(GuardState& state) {
  int status = 0;
  pid_t pid = 0;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid != state.command) continue;
    state.command_alive = false;
    if (WIFSIGNALED(status)) {
      state.status = {0, WTERMSIG(status)};
    } else {
      state.status = {WEXITSTATUS(status), 0};
    }
  }
}

void begin_ending(GuardState& state) {
  if (state.ending) return;
  state.ending = true;
  state.term_deadline = Deadline::after(kTermWait);
  if (state.command_alive) {
    ::kill(state.command, SIGTERM);
    ::kill(state.command, SIGCONT);
  }
}

void obey(GuardState& state) {
  std::array<char, 64> buffer{};
  const ssize_t got = ::recv(state.control, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return begin_ending(state);  // muster is gone
  std::istringstream words(std::string(buffer.data(), static_cast<std::size_t>(got)));
  std::string verb;
  int signal = 0;
  words >> verb >> signal;
  if (verb == "kill") {
    begin_ending(state);
  } else if (verb == "signal" && state.command_alive) {
    ::kill(state.command, signal);
  }
}

// The orphans that this process has inherited as a subreaper: what the ranks double-forked.
std::vector<pid_t> orphans(const GuardState& state) {
  // One small file, where the kernel has it, instead of all of /proc.
  std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  std::vector<pid_t> found;
  if (children) {
    for (pid_t pid = 0; children >> pid;) found.push_back(pid);
  } else {
    found = children_of(::getpid());
  }
  std::erase(found, state.command);
  // A daemon of Open MPI's own is no leftover of a rank.
  std::erase_if(found, [](pid_t pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    return std::getline(in, name) && name == "orted";
  });
  return found;
}

// mpirun waits for the end of the ranks' output, and a daemon that holds on to it keeps mpirun waiting for
// ever. Once mpirun has no child any more, at two looks in a row, what is left are such daemons.
void end_lone_orphans(GuardState& state) {
  const std::vector<pid_t> left = orphans(state);
  const bool only_orphans = !left.empty() && children_of(state.command).empty();
  if (only_orphans && state.only_orphans_before) {
    for (const pid_t orphan : left) {
      for (const pid_t pid : descendants_of(orphan)) ::kill(pid, SIGKILL);
      ::kill(orphan, SIGKILL);
    }
  }
  state.only_orphans_before = only_orphans;
}

void watch(GuardState& state, int signals) {
  Deadline next_look = Deadline::after(kLookInterval);
  while (state.command_alive && !(state.ending && state.term_deadline.expired())) {
    std::array<pollfd, 2> entries{pollfd{signals, POLLIN, 0},
                                  pollfd{state.ending ? -1 : state.control, POLLIN, 0}};
    const Deadline& next = state.ending ? state.term_deadline : next_look;
    ::poll(entries.data(), entries.size(), static_cast<int>(next.remaining().count()));
    signalfd_siginfo info{};
    while (::read(signals, &info, sizeof info) > 0) {
    }
    reap(state);
    if (entries[1].revents != 0) obey(state);
    if (state.command_alive && !state.ending && next_look.expired()) {
      end_lone_orphans(state);
      next_look = Deadline::after(kLookInterval);
    }
  }
}

}  // namespace

int guard_main(int control_fd, const std::string& scratch, const std::vector<std::string>& command) {
  GuardState state;
  state.control = control_fd;
  ::fcntl(control_fd, F_SETFD, FD_CLOEXEC);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // Nothing but SIGKILL ends the guard before its work is done.
  sigset_t all;
  sigset_t before;
  sigset_t child;
  sigfillset(&all);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const UniqueFd signals(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));

  if (const int error = start_command(state, command, before); error != 0) {
    report(control_fd, "failed " + std::to_string(error));
    return 127;
  }
  let_go_of_output();
  watch(state, signals.get());
  if (state.command_alive) {
    ::kill(state.command, SIGKILL);
    int status = 0;
    while (::waitpid(state.command, &status, 0) < 0 && errno == EINTR) {
    }
    state.status = {0, SIGKILL};
  }
  const std::vector<pid_t> left = end_all_descendants(Deadline::after(kSweepWait));
  if (!scratch.empty()) [[maybe_unused]]
    const Status removed = remove_tree(posix_file_ops(), scratch);
  report(control_fd, "exited " + std::to_string(state.status.exit_code) + " " +
                         std::to_string(state.status.term_signal) + " " + std::to_string(left.size()));
  return 0;
}

}  // namespace muster
