#include "tests/mpi/muster_run.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "common/file_ops.h"
#include "common/journal.h"
#include "common/json_fields.h"
#include "launcher/process_tree.h"
#include "tests/support/command.h"
#include "tests/support/eventually.h"

namespace muster::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::seconds;

constexpr seconds kCommandDeadline{120};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TaskFolder::TaskFolder(const std::string& python, const std::string& more) {
  write("program.py", python);
  write("task.yaml", "task_name: test\nnum_workers: 2\nentry_point: program.py\ncheckpoint_path: " +
                         path("runs").string() + "\n" + more);
}

TaskFolder::~TaskFolder() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (!run_directory().empty()) end_processes_of_run(run_id(), seconds(10), Deadline::after(seconds(30)));
}

void TaskFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
}

void TaskFolder::start(const std::vector<std::string>& options) {
  std::vector<std::string> words{built_program("muster"), "run", path("task.yaml").string()};
  words.insert(words.end(), options.begin(), options.end());
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ > 0) return;
  const int out = ::open(path("output").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::setenv("XDG_STATE_HOME", path("state").c_str(), 1);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

int TaskFolder::wait() {
  int status = 0;
  const bool ended = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, kCommandDeadline);
  if (!ended) throw std::runtime_error("`muster run` does not end; it said:\n" + output());
  pid_ = -1;
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

void TaskFolder::signal(int signal) const { ::kill(pid_, signal); }

std::string TaskFolder::output() const { return read(path("output")); }

fs::path TaskFolder::run_directory() const {
  fs::path newest;
  double newest_created_s = -1;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path("runs"), error)) {
    const json info = json::parse(read(entry.path() / "run.json"), nullptr, false);
    const double created_s = number_field(info, "created_unix_s", -1);
    if (created_s <= newest_created_s || entry.path().filename().string().starts_with(".")) continue;
    newest = entry.path();
    newest_created_s = created_s;
  }
  return newest;
}

std::vector<json> TaskFolder::events(const std::string& kind) const {
  const fs::path run = run_directory();
  if (run.empty()) return {};
  const auto journal = read_journal(run / "journal.jsonl");
  if (!journal) return {};
  std::vector<json> found;
  for (const json& event : journal->events) {
    if (kind.empty() || text_field(event, "event") == kind) found.push_back(event);
  }
  return found;
}

pid_t TaskFolder::rank_pid(int rank, int attempt) const {
  pid_t pid = -1;
  eventually([&] {
    for (const json& event : events("exec")) {
      if (integer_field(event, "rank", -1) == rank && integer_field(event, "generation", -1) == attempt) {
        pid = static_cast<pid_t>(integer_field(event, "pid", -1));
      }
    }
    return pid > 0;
  });
  if (pid <= 0) throw std::runtime_error("the rank did not start; muster said:\n" + output());
  return pid;
}

std::vector<pid_t> TaskFolder::processes() const { return processes_of_run(run_id()); }

std::string TaskFolder::log(int attempt, const std::string& name) const {
  return read(run_directory() / "logs" / ("attempt-" + std::to_string(attempt)) / name);
}

pid_t parent_of(pid_t pid) {
  const std::string stat = read("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t command_end = stat.rfind(')');
  return command_end == std::string::npos ? -1 : static_cast<pid_t>(std::stoi(stat.substr(command_end + 4)));
}

}  // namespace muster::testing
