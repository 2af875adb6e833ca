#include "tests/support/netns_hosts.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <system_error>

#include "tests/support/eventually.h"
#include "tests/support/subprocess.h"

namespace muster::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSwitch = "switch";

// Mounts what a host has of its own. Source and build folders stay visible even if they lie in /tmp.
constexpr const char* kPrepareHost = R"(
exec 7<"$SOURCE" 8<"$BUILD"
mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm || exit 1
case "$SOURCE" in /tmp/*) mkdir -p "$SOURCE" && mount --bind /proc/self/fd/7 "$SOURCE" ;; esac
case "$BUILD" in /tmp/*) mkdir -p "$BUILD" && mount --bind /proc/self/fd/8 "$BUILD" ;; esac
exec 7<&- 8<&-
hostname "$NAME" && mount --bind "$SHARED/hosts" /etc/hosts && ip link set lo up
)";

constexpr const char* kPrepareSwitch = "ip link add br0 type bridge && ip link set br0 up";

std::string failure_of(const std::vector<std::string>& command) {
  const ProgramResult result = run_program(command);
  if (result.exit_code == 0) return "";
  std::string text;
  for (const std::string& word : command) text += word + " ";
  return text + "failed: " + result.err;
}

// Empty until `path` is there and holds a number.
pid_t read_pid(const fs::path& path) {
  pid_t pid = 0;
  std::ifstream(path) >> pid;
  return pid;
}

pid_t only_child_of(pid_t parent) {
  pid_t child = 0;
  std::ifstream("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children") >> child;
  return child;
}

// Empty for a zombie: a host's first process reaps none.
std::string command_line(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/cmdline");
  std::string words{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

}  // namespace

std::unique_ptr<NetnsHosts> NetnsHosts::create(const fs::path& shared, int hosts, std::string& reason) {
  if (::geteuid() != 0) {
    reason = "only root can make network namespaces";
    return nullptr;
  }
  std::unique_ptr<NetnsHosts> made(new NetnsHosts(shared));
  reason = made->start(hosts);
  return reason.empty() ? std::move(made) : nullptr;
}

NetnsHosts::~NetnsHosts() = default;

std::string NetnsHosts::start(int hosts) {
  std::ofstream table(shared_ / "hosts");
  table << "127.0.0.1 localhost\n" << address(0) << " " << kHead << "\n";
  for (int host = 1; host <= hosts; ++host) table << address(host) << " " << name(host) << "\n";
  table.close();

  std::ofstream(rsh_agent()) << "#!/bin/sh\n"
                                "pid=$(cat \""
                             << shared_.string()
                             << "/$1.pid\") || exit 255\n"
                                "kill -0 \"$pid\" || exit 255\n"
                                "shift\n"
                                "exec nsenter --target \"$pid\" --net --uts --ipc --mount --pid -- "
                                "env -i PATH=\"$PATH\" HOME=\"$HOME\" sh -c \"$*\"\n";
  fs::permissions(rsh_agent(), fs::perms::owner_all);

  std::string reason = start_holder(kSwitch, {"--net"}, kPrepareSwitch, false);
  if (reason.empty()) {
    reason = start_holder(kHead, {"--net", "--uts", "--ipc", "--mount"}, kPrepareHost, false);
  }
  if (reason.empty()) reason = connect(kHead, address(0));
  for (int host = 1; host <= hosts && reason.empty(); ++host) {
    reason = start_holder(
        name(host), {"--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"},
        kPrepareHost, true);
    if (reason.empty()) reason = connect(name(host), address(host));
  }
  return reason;
}

std::string NetnsHosts::start_holder(const std::string& name, const std::vector<std::string>& namespaces,
                                     const std::string& preparation, bool forks) {
  const fs::path ready = shared_ / (name + ".ready");
  std::vector<std::string> command{"unshare"};
  command.insert(command.end(), namespaces.begin(), namespaces.end());
  const std::string script = "{ " + preparation + "\n} && echo ready > \"$READY\" && exec sleep infinity";
  command.insert(command.end(), {"sh", "-c", script});
  ProgramOptions options;
  options.set = {{"NAME", name},
                 {"READY", ready.string()},
                 {"SHARED", shared_.string()},
                 {"SOURCE", MUSTER_SOURCE_DIR},
                 {"BUILD", fs::path(built_program("")).parent_path().parent_path().string()}};
  holders_.emplace_back([&] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    become(command, options);
    return 127;
  });
  const auto ended = [&] {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(holders_.back().pid()), &info, WEXITED | WNOHANG | WNOWAIT) ==
               0 &&
           info.si_pid != 0;
  };
  eventually([&] { return fs::exists(ready) || ended(); }, std::chrono::seconds(20));
  if (!fs::exists(ready)) return "cannot make the namespaces of " + name;
  const pid_t holder = forks ? only_child_of(holders_.back().pid()) : holders_.back().pid();
  std::ofstream(shared_ / (name + ".pid")) << holder << "\n";
  return holder > 0 ? "" : "cannot find the process of " + name;
}

// A cable from the host's eth0 to the switch.
std::string NetnsHosts::connect(const std::string& name, const std::string& address) {
  const std::string host = std::to_string(pid_of(name));
  const std::vector<std::string> at_switch{"nsenter", "--target", std::to_string(pid_of(kSwitch)), "--net"};
  const std::vector<std::string> at_host{"nsenter", "--target", host, "--net"};
  const std::string cable = "to-" + name;
  const auto run = [](std::vector<std::string> where, const std::vector<std::string>& what) {
    where.insert(where.end(), what.begin(), what.end());
    return failure_of(where);
  };
  for (const std::string& failure :
       {run(at_switch, {"ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", host}),
        run(at_switch, {"ip", "link", "set", cable, "master", "br0", "up"}),
        run(at_host, {"ip", "address", "add", address + "/24", "dev", "eth0"}),
        run(at_host, {"ip", "link", "set", "eth0", "up"})}) {
    if (!failure.empty()) return failure;
  }
  return "";
}

pid_t NetnsHosts::pid_of(const std::string& name) const { return read_pid(shared_ / (name + ".pid")); }

std::vector<std::string> NetnsHosts::on_head(const std::vector<std::string>& command) const {
  std::vector<std::string> words{
      "nsenter", "--target", std::to_string(pid_of(kHead)), "--net", "--uts", "--ipc", "--mount", "--"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

void NetnsHosts::kill_host(int host) { ::kill(pid_of(name(host)), SIGKILL); }

std::vector<pid_t> NetnsHosts::processes_of(int host) const {
  const pid_t holder = pid_of(name(host));
  const auto space_of = [](const std::string& pid) {
    std::error_code ignored;
    return fs::read_symlink("/proc/" + pid + "/ns/pid", ignored).string();
  };
  const std::string space = space_of(std::to_string(holder));
  std::vector<pid_t> found;
  if (space.empty()) return found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string text = entry.path().filename().string();
    pid_t pid = 0;
    std::from_chars(text.data(), text.data() + text.size(), pid);
    if (pid > 0 && pid != holder && space_of(text) == space && !command_line(pid).empty())
      found.push_back(pid);
  }
  return found;
}

std::string NetnsHosts::describe_processes_of(int host) const {
  std::string text;
  for (const pid_t pid : processes_of(host)) text += std::to_string(pid) + ": " + command_line(pid) + "\n";
  return text;
}

}  // namespace muster::testing
