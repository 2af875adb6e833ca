#include "launcher/command_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "common/clock.h"
#include "common/file_ops.h"
#include "common/unique_fd.h"
#include "launcher/spawn_settings.h"
#include "launcher/units.h"

namespace muster {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A killed process that is still there after this is stuck in the kernel; it is left to init.
constexpr seconds kKilledWait{5};

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> fds{-1, -1};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0)
    return fail(ErrorCode::kIo, "cannot make a pipe: {}", errno_text(errno));
  ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto replaces = [&](const auto& change) {
      return text.starts_with(change.first) && text.substr(change.first.size()).starts_with('=');
    };
    if (std::none_of(changes.begin(), changes.end(), replaces)) environment.emplace_back(text);
  }
  for (const auto& [name, value] : changes) environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

// A child in a group of its own. Its pid, and so its group's, is nobody else's until end() has reaped it.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  bool has_exited() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == pid_;
  }

  // Kills what is left of the group, and returns the leader's wait status.
  int end() {
    if (pid_ < 0) return status_;
    ::kill(-pid_, SIGKILL);
    const Deadline deadline = Deadline::after(kKilledWait);
    while (::waitpid(pid_, &status_, WNOHANG) == 0 && !deadline.expired()) ::poll(nullptr, 0, 1);
    pid_ = -1;
    return status_;
  }

 private:
  pid_t pid_;
  int status_ = SIGKILL;
};

struct Stream {
  UniqueFd fd;
  std::string* text;

  // All that is there now. False: more than `bytes_max`.
  bool drain(std::size_t bytes_max) {
    std::array<char, 1 << 16> block;
    while (fd) {
      const ssize_t got = ::read(fd.get(), block.data(), block.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return true;
      if (got <= 0) {
        fd.reset();
      } else {
        text->append(block.data(), static_cast<std::size_t>(got));
        if (text->size() > bytes_max) return false;
      }
    }
    return true;
  }
};

Result<pid_t> spawn(const std::vector<std::string>& argv, const CommandOptions& options, const Pipe& out,
                    const Pipe& err) {
  SpawnSettings settings;
  ::posix_spawn_file_actions_addopen(&settings.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&settings.files, out.writer.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.files, err.writer.get(), STDERR_FILENO);
  settings.set_flags_and_default_signals(POSIX_SPAWN_SETPGROUP);
  const std::vector<std::string> environment = environment_with(options.environment);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv.front().c_str(), &settings.files, &settings.attributes,
                                   c_strings(argv).data(), c_strings(environment).data());
  if (error == ENOENT) return fail(ErrorCode::kNotFound, "there is no program {}", argv.front());
  if (error != 0) return fail(ErrorCode::kIo, "cannot start {}: {}", argv.front(), errno_text(error));
  return pid;
}

// Reads until the child has ended. What it left running may hold the pipes open for ever, and is not waited
// for.
Status follow(const Child& child, std::array<Stream, 2>& streams, const CommandOptions& options) {
  constexpr milliseconds kLookAgain{20};
  constexpr milliseconds kExitsAtOnce{1};
  const Deadline deadline = Deadline::after(options.timeout);
  for (bool exited = false; !exited;) {
    std::array<pollfd, 2> entries{pollfd{streams[0].fd.get(), POLLIN, 0},
                                  pollfd{streams[1].fd.get(), POLLIN, 0}};
    const bool open = streams[0].fd || streams[1].fd;
    const auto wait = std::min(deadline.remaining(), open ? kLookAgain : kExitsAtOnce);
    ::poll(entries.data(), entries.size(), static_cast<int>(wait.count()));
    exited = child.has_exited();  // before the last reading, so that nothing it printed is missed
    for (Stream& stream : streams) {
      if (!stream.drain(options.output_bytes_max))
        return fail(ErrorCode::kIo, "it printed more than {} bytes", options.output_bytes_max);
    }
    if (!exited && deadline.expired())
      return fail(ErrorCode::kDeadlineExceeded, "no end within {}", format_duration(options.timeout));
  }
  return {};
}

}  // namespace

std::string CommandOutput::complaint() const {
  const std::string& text = err.find_first_not_of(" \n\t") == std::string::npos ? out : err;
  const std::size_t begin = text.find_first_not_of(" \n\t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find('\n', begin) - begin);
}

Result<CommandOutput> run_command(const std::vector<std::string>& argv, const CommandOptions& options) {
  if (argv.empty()) return fail(ErrorCode::kInvalidArgument, "an empty command");
  MUSTER_ASSIGN(Pipe out, make_pipe());
  MUSTER_ASSIGN(Pipe err, make_pipe());
  MUSTER_ASSIGN(const pid_t pid, spawn(argv, options, out, err));
  Child child(pid);
  out.writer.reset();
  err.writer.reset();
  CommandOutput output;
  std::array<Stream, 2> streams{Stream{std::move(out.reader), &output.out},
                                Stream{std::move(err.reader), &output.err}};
  MUSTER_TRY(follow(child, streams, options));
  const int status = child.end();
  if (WIFEXITED(status)) output.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) output.term_signal = WTERMSIG(status);
  return output;
}

}  // namespace muster
