#include "tests/support/run_under_test.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "common/clock.h"
#include "common/run_contract.h"
#include "launcher/process_tree.h"
#include "tests/support/command.h"
#include "tests/support/eventually.h"

namespace muster::testing {
namespace {

using nlohmann::json;

// Without reaping it.
bool has_ended(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

std::string command_name(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(in, name);
  return name;
}

}  // namespace

RunUnderTest::RunUnderTest(const std::string& task) { write_task(task); }

RunUnderTest::~RunUnderTest() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  wait(std::chrono::seconds(10));
}

void RunUnderTest::write_task(const std::string& task) const {
  std::ofstream(directory_.path() / "task.yaml")
      << task << "checkpoint_path: " << (directory_.path() / "runs").string() << "\n";
}

std::vector<std::string> RunUnderTest::muster_argv(std::vector<std::string> arguments) const {
  std::vector<std::string> argv = {built_program("muster"), "run",
                                   (directory_.path() / "task.yaml").string()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

void RunUnderTest::start(std::vector<std::string> arguments) {
  std::vector<std::string> words = muster_argv(std::move(arguments));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string log = (directory_.path() / "output").string();
  const std::string state = (directory_.path() / "state").string();
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ != 0) return;
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::setenv("XDG_STATE_HOME", state.c_str(), 1);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

int RunUnderTest::wait(std::chrono::seconds timeout) {
  int status = 0;
  if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) != 0; }, timeout)) return -1;
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string RunUnderTest::output() const {
  std::ifstream in(directory_.path() / "output");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::filesystem::path RunUnderTest::run_directory() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path() / "runs", error)) {
    if (std::filesystem::exists(entry.path() / "run.json")) return entry.path();
  }
  return {};
}

const std::vector<json>& RunUnderTest::events() {
  std::ifstream in(run_directory() / "journal.jsonl", std::ios::binary);
  in.seekg(static_cast<std::streamoff>(journal_read_bytes_));
  const std::string fresh{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = fresh.find('\n', begin)) != std::string::npos; begin = end + 1) {
    json event = json::parse(fresh.substr(begin, end - begin), nullptr, false);
    if (event.is_object()) events_.push_back(std::move(event));
  }
  journal_read_bytes_ += begin;
  return events_;
}

bool RunUnderTest::wait_for(const std::function<bool(const json&)>& predicate, std::chrono::seconds timeout) {
  std::size_t seen = 0;
  bool found = false;
  const auto found_or_ended = [&] {
    const bool ended = pid_ > 0 && has_ended(pid_);  // looked at first: then all that it wrote is there
    for (const std::vector<json>& all = events(); seen < all.size() && !found; ++seen) {
      found = predicate(all[seen]);
    }
    return found || ended;
  };
  eventually(found_or_ended, timeout, std::chrono::milliseconds(1));
  return found;
}

std::string RunUnderTest::hash() const {
  const CommandResult result =
      run_command({built_program("muster"), "checkpoint", "hash", run_directory().string()});
  return result.exit_code == 0 ? result.output.substr(0, 64) : "no hash: " + result.errors;
}

pid_t RunUnderTest::mpirun_pid() const {
  for (const pid_t pid : descendants_of(pid_)) {
    const std::string name = command_name(pid);
    if (name == "mpirun" || name == "orterun") return pid;
  }
  return 0;
}

pid_t RunUnderTest::rank_pid(int rank) {
  pid_t pid = 0;
  for (const json& event : events()) {
    if (event.at("event") == contract::event::kExec && event.at("rank") == rank)
      pid = event.at("pid").get<pid_t>();
  }
  return pid;
}

std::vector<pid_t> RunUnderTest::processes() const {
  return processes_of_run(run_directory().filename().string());
}

std::map<std::int64_t, std::vector<std::int64_t>> samples_by_epoch(const std::vector<json>& events) {
  struct Seen {
    std::int64_t attempt = 0;
    std::int64_t epoch = 0;
    std::vector<std::int64_t> ids;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Seen> last;  // by step and shard
  for (const json& event : events) {
    if (event.at("event") != contract::event::kSamples) continue;
    Seen& seen = last[{event.at("step").get<std::int64_t>(), event.at("shard").get<std::int64_t>()}];
    const auto attempt = event.at("generation").get<std::int64_t>();
    if (attempt < seen.attempt) continue;
    seen = {attempt, event.at("epoch").get<std::int64_t>(), event.at("ids").get<std::vector<std::int64_t>>()};
  }
  std::map<std::int64_t, std::vector<std::int64_t>> by_epoch;
  for (const auto& [key, seen] : last) {
    std::vector<std::int64_t>& ids = by_epoch[seen.epoch];
    ids.insert(ids.end(), seen.ids.begin(), seen.ids.end());
  }
  for (auto& [epoch, ids] : by_epoch) std::sort(ids.begin(), ids.end());
  return by_epoch;
}

std::string demanding_task(int workers, int epochs) {
  return fmt::format(R"(task_name: exact
num_workers: {}
entry_point: muster-train
data_path: {}/examples/data/digits8x8
schedule:
  retry:
    crashes_total: 100
    crashes_without_progress: 100
    node_failures: 100
trainer:
  model: mlp
  hidden: [32, 16]
  dropout: 0.25
  batch_size: 64
  epochs: {}
  seed: 7
  shards: 8
  log_samples: true
  optimizer: {{name: adamw, learning_rate: 0.004}}
  schedule: {{kind: cosine, warmup_steps: 30}}
  checkpoint: {{every_steps: 20}}
)",
                     workers, MUSTER_SOURCE_DIR, epochs);
}

}  // namespace muster::testing
