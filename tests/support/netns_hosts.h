// Several "hosts" on one machine: network, host name, process, IPC and mount namespaces for each, with a
// private /tmp and /dev/shm, joined by a bridge in a namespace of its own. Nothing is joined to the machine's
// own network and nothing is named outside: every namespace lives as long as a process that dies with the
// test, so nothing is left behind however the test ends.
//
// The head, where `muster` is to be started, is such a host too, but shares the machine's process ids: so the
// rsh agent, which stands for ssh, finds the other hosts.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/forked_process.h"

namespace muster::testing {

class NetnsHosts {
 public:
  // Null, with the reason, if this machine or user cannot make namespaces. `shared` is the directory that all
  // hosts see (it must not lie in /tmp or /dev/shm): host table, agent and pids go there.
  static std::unique_ptr<NetnsHosts> create(const std::filesystem::path& shared, int hosts,
                                            std::string& reason);

  ~NetnsHosts();
  NetnsHosts(const NetnsHosts&) = delete;
  NetnsHosts& operator=(const NetnsHosts&) = delete;

  static constexpr const char* kHead = "head";
  // Names are host1, host2, …
  static std::string name(int host) { return "host" + std::to_string(host); }
  static std::string address(int host) { return "10.99.0." + std::to_string(10 + host); }

  // Called as ssh would be: AGENT HOST COMMAND…; the command gets a bare environment.
  std::filesystem::path rsh_agent() const { return shared_ / "rsh-agent"; }
  // The command as it runs on the head.
  std::vector<std::string> on_head(const std::vector<std::string>& command) const;
  // Every process of the host dies, as by a power cut.
  void kill_host(int host);
  // Of the host, apart from the one that holds it.
  std::vector<pid_t> processes_of(int host) const;
  // Their command lines, for failed expectations.
  std::string describe_processes_of(int host) const;

 private:
  explicit NetnsHosts(std::filesystem::path shared) : shared_(std::move(shared)) {}
  std::string start(int hosts);
  std::string start_holder(const std::string& name, const std::vector<std::string>& namespaces,
                           const std::string& preparation, bool forks);
  std::string connect(const std::string& name, const std::string& address);
  pid_t pid_of(const std::string& name) const;

  std::filesystem::path shared_;
  std::vector<ForkedProcess> holders_;
};

}  // namespace muster::testing
