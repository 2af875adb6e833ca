#include "launcher/process_tree.h"

#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "common/file_ops.h"
#include "common/run_contract.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kScanInterval{20};

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, DirectoryCloser> proc(::opendir("/proc"));
  if (!proc) return pids;
  while (const dirent* entry = ::readdir(proc.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc{} && end == name.data() + name.size()) pids.push_back(pid);
  }
  return pids;
}

// Empty if the process is gone, also if it goes while it is read.
std::string read_proc(pid_t pid, const char* file) {
  return read_text_file("/proc/" + std::to_string(pid) + "/" + file).value_or("");
}

// 0 if the process is gone.
pid_t parent_of(pid_t pid) {
  // "pid (command) state ppid …", where the command may hold blanks and parentheses.
  const std::string stat = read_proc(pid, "stat");
  const std::size_t command_end = stat.rfind(')');
  if (command_end == std::string::npos || command_end + 4 > stat.size()) return 0;
  pid_t parent = 0;
  std::from_chars(stat.data() + command_end + 4, stat.data() + stat.size(), parent);
  return parent;
}

std::unordered_map<pid_t, std::vector<pid_t>> children_by_parent() {
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  for (const pid_t pid : all_pids()) children[parent_of(pid)].push_back(pid);
  return children;
}

void nap() { ::poll(nullptr, 0, static_cast<int>(kScanInterval.count())); }

}  // namespace

std::vector<pid_t> descendants_of(pid_t ancestor) {
  auto children = children_by_parent();
  std::vector<pid_t> found;
  std::vector<pid_t> to_visit{ancestor};
  while (!to_visit.empty()) {
    const pid_t pid = to_visit.back();
    to_visit.pop_back();
    for (const pid_t child : children[pid]) {
      found.push_back(child);
      to_visit.push_back(child);
    }
  }
  return found;
}

std::vector<pid_t> children_of(pid_t parent) { return children_by_parent()[parent]; }

std::vector<pid_t> end_all_descendants(Deadline deadline) {
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    std::vector<pid_t> left = descendants_of(::getpid());
    if (left.empty() || deadline.expired()) return left;
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    nap();
  }
}

std::vector<pid_t> processes_of_run(std::string_view run_id) {
  std::unordered_set<pid_t> own{::getpid()};
  for (pid_t pid = ::getppid(); pid > 1; pid = parent_of(pid)) own.insert(pid);
  for (const pid_t pid : descendants_of(::getpid())) own.insert(pid);
  const std::string wanted = std::string(contract::kRunId) + "=" + std::string(run_id);
  std::vector<pid_t> found;
  for (const pid_t pid : all_pids()) {
    if (own.contains(pid)) continue;
    struct stat owner {};
    if (::stat(("/proc/" + std::to_string(pid)).c_str(), &owner) != 0 || owner.st_uid != ::geteuid())
      continue;
    const std::string environment = '\0' + read_proc(pid, "environ");
    const std::size_t at = environment.find('\0' + wanted);
    if (at == std::string::npos) continue;
    const std::size_t end = at + 1 + wanted.size();
    if (end == environment.size() || environment[end] == '\0') found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> end_processes_of_run(std::string_view run_id, milliseconds patience, Deadline deadline) {
  const Deadline patient = Deadline::after(patience);
  for (;;) {
    std::vector<pid_t> left = processes_of_run(run_id);
    if (left.empty() || deadline.expired()) return left;
    if (patient.expired()) {
      for (const pid_t pid : left) ::kill(pid, SIGKILL);
    }
    nap();
  }
}

}  // namespace muster
