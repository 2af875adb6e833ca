// Which process is meant, on which machine, so that another process can tell later whether it still lives.
// A pid alone is not enough: pids are reused (start time), machines restart (boot id), and containers count
// pids of their own (pid namespace). Pure reads of /proc; safe from any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/status.h"

namespace muster {

struct ProcessIdentity {
  std::string host;  // for people; liveness is decided by the other fields
  std::string boot_id;
  std::uint64_t pid_namespace = 0;
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // since boot
  bool operator==(const ProcessIdentity&) const = default;
};

Result<ProcessIdentity> this_process_identity();

enum class Liveness {
  kAlive,
  kDead,
  kUnknown  // of another boot, machine or pid namespace: nothing here can tell
};

// Asks this machine's /proc about `process`; `self` is the asking process. A zombie is dead.
Liveness liveness_of(const ProcessIdentity& process, const ProcessIdentity& self);

// Start time of a running process, in clock ticks since boot. Empty: no such process, or only its zombie.
std::optional<std::uint64_t> process_start_ticks(pid_t pid);

nlohmann::json process_identity_to_json(const ProcessIdentity& process);
// Empty if a field is missing or of the wrong type.
std::optional<ProcessIdentity> process_identity_from_json(const nlohmann::json& json);

std::string host_name();

}  // namespace muster
