#include "launcher/process_identity.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "common/file_ops.h"

namespace muster {

using nlohmann::json;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::optional<std::uint64_t> process_start_ticks(pid_t pid) {
  const auto text = read_text_file(fmt::format("/proc/{}/stat", pid));
  if (!text) return std::nullopt;
  // The second field is the program's name in parentheses and may hold anything, parentheses included.
  const std::size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(name_end + 1));
  std::string state;
  fields >> state;
  if (state == "Z" || state == "X") return std::nullopt;
  std::string skipped;
  constexpr int kFieldsBetweenStateAndStartTime = 18;
  for (int i = 0; i < kFieldsBetweenStateAndStartTime; ++i) fields >> skipped;
  std::uint64_t ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  return ticks;
}

Result<ProcessIdentity> this_process_identity() {
  ProcessIdentity self;
  self.host = host_name();
  MUSTER_ASSIGN(self.boot_id, read_text_file("/proc/sys/kernel/random/boot_id"));
  while (!self.boot_id.empty() && self.boot_id.back() == '\n') self.boot_id.pop_back();
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) != 0) {
    return fail(ErrorCode::kIo, "cannot read /proc/self/ns/pid: {}; is /proc mounted?", errno_text(errno));
  }
  self.pid_namespace = info.st_ino;
  self.pid = ::getpid();
  const auto ticks = process_start_ticks(self.pid);
  if (!ticks) {
    return fail(ErrorCode::kIo, "cannot read /proc/{}/stat: /proc is mounted for another pid namespace",
                self.pid);
  }
  self.start_ticks = *ticks;
  return self;
}

Liveness liveness_of(const ProcessIdentity& process, const ProcessIdentity& self) {
  if (process.boot_id != self.boot_id || process.pid_namespace != self.pid_namespace) {
    return Liveness::kUnknown;
  }
  if (const auto ticks = process_start_ticks(process.pid)) {
    return *ticks == process.start_ticks ? Liveness::kAlive : Liveness::kDead;
  }
  // With hidepid another user's process has no /proc entry, though it lives.
  if (::access(fmt::format("/proc/{}", process.pid).c_str(), F_OK) != 0 && ::kill(process.pid, 0) != 0 &&
      errno == EPERM) {
    return Liveness::kAlive;
  }
  return Liveness::kDead;
}

json process_identity_to_json(const ProcessIdentity& process) {
  return {{"host", process.host},
          {"boot_id", process.boot_id},
          {"pid_namespace", process.pid_namespace},
          {"pid", process.pid},
          {"start_ticks", process.start_ticks}};
}

std::optional<ProcessIdentity> process_identity_from_json(const json& value) {
  if (!value.is_object()) return std::nullopt;
  for (const char* name : {"host", "boot_id"}) {
    if (!value.contains(name) || !value.at(name).is_string()) return std::nullopt;
  }
  for (const char* name : {"pid_namespace", "pid", "start_ticks"}) {
    if (!value.contains(name) || !value.at(name).is_number_integer()) return std::nullopt;
  }
  ProcessIdentity process;
  process.host = value.at("host");
  process.boot_id = value.at("boot_id");
  process.pid_namespace = value.at("pid_namespace");
  process.pid = value.at("pid");
  process.start_ticks = value.at("start_ticks");
  return process;
}

}  // namespace muster
