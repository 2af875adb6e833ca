#include "launcher/mpirun_launcher.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/file_ops.h"
#include "common/run_contract.h"
#include "launcher/guard.h"
#include "launcher/tagged_output.h"

namespace muster {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr int kReadsPerTurn =
    8;  // so that a flood of output does not keep the supervisor from its other work

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

// One of mpirun's two output streams.
struct OutputStream {
  UniqueFd fd;
  TaggedOutputSplitter splitter;

  // False at end of file.
  bool read(const LaunchedAttempt::LineSink& sink) {
    std::array<char, kReadBytes> buffer{};
    for (int turn = 0; fd && turn < kReadsPerTurn; ++turn) {
      const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) break;
      if (got <= 0) {
        splitter.finish(sink);
        fd.reset();
        break;
      }
      splitter.feed({buffer.data(), static_cast<std::size_t>(got)}, sink);
    }
    return static_cast<bool>(fd);
  }
};

// Where Open MPI keeps its session files and the ranks' shared memory. It removes them itself, unless it is
// killed: then segments of 4 MiB a rank would stay in memory. So they get a directory that we can remove. On
// this machine only: on other hosts nobody would make it.
class Scratch {
 public:
  // An unusable one (no room, somebody else's) leaves Open MPI its defaults.
  static Scratch make(const std::string& run_id) {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code error;
    const std::filesystem::path base =
        std::filesystem::is_directory(memory, error) ? memory : std::filesystem::path("/tmp");
    const std::filesystem::path path = base / ("muster-" + run_id);
    // Left by a muster that died together with its guard; nothing of that attempt runs any more.
    [[maybe_unused]] const Status removed = remove_tree(posix_file_ops(), path);
    return Scratch(::mkdir(path.c_str(), 0700) == 0 ? path.string() : "");
  }
  Scratch() = default;
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (!path_.empty()) [[maybe_unused]]
      const Status removed = remove_tree(posix_file_ops(), path_);
  }
  const std::string& path() const { return path_; }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

class MpirunAttempt final : public LaunchedAttempt {
 public:
  MpirunAttempt(int generation, int stop_signal, Scratch scratch, Guard guard, UniqueFd epoll,
                OutputStream out, OutputStream err)
      : generation_(generation),
        stop_signal_(stop_signal),
        scratch_(std::move(scratch)),
        guard_(std::move(guard)),
        epoll_(std::move(epoll)),
        out_(std::move(out)),
        err_(std::move(err)) {}

  int generation() const override { return generation_; }
  int output_fd() const override { return epoll_.get(); }
  int exit_fd() const override { return guard_.fd(); }

  bool read_output(const LineSink& sink) override {
    if (!guard_.start_error().empty() && !start_error_told_) {
      start_error_told_ = true;
      sink(-1, true, "cannot start mpirun: " + guard_.start_error());
    }
    const bool out_open = out_.read(sink);
    const bool err_open = err_.read(sink);
    return out_open || err_open;
  }

  std::optional<ExitStatus> poll_exit() override { return guard_.poll(); }

  Status send_stop() override { return guard_.signal_command(stop_signal_); }

  void kill() override { guard_.kill(); }

 private:
  int generation_;
  int stop_signal_;
  Scratch scratch_;  // before the guard: removed after it has ended everything
  Guard guard_;
  UniqueFd epoll_;  // over both streams, so that one descriptor stands for "output"
  OutputStream out_;
  OutputStream err_;
  bool start_error_told_ = false;
};

Status watch(int epoll, int fd) {
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.fd = fd;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &interest) != 0) {
    return fail(ErrorCode::kIo, "cannot watch the output: {}", errno_text(errno));
  }
  return {};
}

std::string hostfile_of(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) text += fmt::format("{} slots={}\n", host.name, host.slots);
  return text;
}

class MpirunLauncher final : public ProcessLauncher {
 public:
  explicit MpirunLauncher(std::string muster_executable) : muster_executable_(std::move(muster_executable)) {}

  Result<std::unique_ptr<LaunchedAttempt>> start(const Plan& plan, const RunDirectory& run,
                                                 const AttemptRequest& request) override {
    const int stop_signal = signal_number(plan.stop_signal);
    MUSTER_TRY(write_attempt_files(plan, run, request));
    const std::filesystem::path directory = run.attempt(request.generation);
    MUSTER_ASSIGN(Pipe out, make_pipe());
    MUSTER_ASSIGN(Pipe err, make_pipe());
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    MUSTER_TRY(watch(epoll.get(), out.reader.get()));
    MUSTER_TRY(watch(epoll.get(), err.reader.get()));

    Scratch scratch;
    if (request.hosts.empty()) scratch = Scratch::make(run.run_id);
    GuardOptions options;
    options.muster_executable = muster_executable_;
    options.command = mpirun_argv(plan, muster_executable_, (directory / "environment.json").string(),
                                  request.hosts.empty() ? "" : (directory / "hostfile").string());
    options.environment = mpirun_environment(run, request, scratch.path());
    options.scratch_directory = scratch.path();
    options.working_directory = plan.working_directory;
    options.stdout_fd = out.writer.get();
    options.stderr_fd = err.writer.get();
    MUSTER_ASSIGN(Guard guard, Guard::spawn(options));
    return std::unique_ptr<LaunchedAttempt>(std::make_unique<MpirunAttempt>(
        request.generation, stop_signal, std::move(scratch), std::move(guard), std::move(epoll),
        OutputStream{std::move(out.reader), TaggedOutputSplitter(plan.world_size, false)},
        OutputStream{std::move(err.reader), TaggedOutputSplitter(plan.world_size, true)}));
  }

 private:
  static Status write_attempt_files(const Plan& plan, const RunDirectory& run,
                                    const AttemptRequest& request) {
    FileOps& files = posix_file_ops();
    const std::filesystem::path directory = run.attempt(request.generation);
    MUSTER_TRY(make_directories(files, directory));
    const std::string environment = attempt_environment(plan, run, request).dump(2) + "\n";
    MUSTER_TRY(publish_file(files, directory / "environment.json", environment, 0600));
    if (request.hosts.empty()) return {};
    return publish_file(files, directory / "hostfile", hostfile_of(request.hosts));
  }

  // mpirun and its daemons carry the run's id too, so that leftovers of a run can be told from other
  // processes.
  static std::vector<std::string> mpirun_environment(const RunDirectory& run, const AttemptRequest& request,
                                                     const std::string& scratch) {
    std::vector<std::string> own;
    for (char** entry = environ; *entry != nullptr; ++entry) own.emplace_back(*entry);
    std::vector<std::string> environment = launcher_environment(own);
    environment.push_back(fmt::format("{}={}", contract::kRunId, run.run_id));
    environment.push_back(fmt::format("{}={}", contract::kAttempt, request.generation));
    if (scratch.empty()) return environment;
    for (const char* parameter : {"OMPI_MCA_orte_tmpdir_base", "OMPI_MCA_btl_vader_backing_directory"}) {
      if (std::getenv(parameter) == nullptr) environment.push_back(fmt::format("{}={}", parameter, scratch));
    }
    return environment;
  }

  std::string muster_executable_;
};

}  // namespace

int signal_number(const std::string& name) {
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* abbreviation = ::sigabbrev_np(signal);
    if (abbreviation != nullptr && name == std::string("SIG") + abbreviation) return signal;
  }
  return 0;
}

std::unique_ptr<ProcessLauncher> make_mpirun_launcher(std::string muster_executable) {
  return std::make_unique<MpirunLauncher>(std::move(muster_executable));
}

}  // namespace muster
