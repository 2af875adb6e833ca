// The lease of a run directory: at most one muster supervises a run, and a dead owner loses it.
// lease.json holds owner id, host, boot id, pid, the process's start time and the time of the last renewal.
// On the owner's own host its death is seen at once (pid + start time + boot id); from another host the lease
// is dead when it was not renewed for kLeaseExpiry. Taking over is atomic: of two takers one wins.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "common/status.h"

namespace muster {

inline constexpr std::chrono::seconds kLeaseRenewInterval{5};
inline constexpr std::chrono::seconds kLeaseExpiry{60};

class Lease {
 public:
  // kAlreadyExists, naming the holder's host and pid, when somebody alive has it.
  static Result<Lease> acquire(const std::filesystem::path& run_directory);

  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();  // releases

  // kAborted if somebody else took it over: the caller must stop at once and write nothing more.
  Status renew();
  void release();

 private:
  Lease(std::filesystem::path path, std::string owner_id);
  std::filesystem::path path_;
  std::string owner_id_;  // empty: released or moved from
};

}  // namespace muster
