// The lease of a run directory: at most one muster supervises a run, and a dead owner loses it.
//
// <run>/leases/N.json names the N-th owner; the highest N is the lease, and N only grows. An empty file is a
// lease given back. Taking over is link(2) onto N + 1, which only one process can do; nobody ever writes
// another owner's file, so of many takers exactly one wins. The time of the last renewal is the file's
// modification time: both stamps that are compared come from the file server's clock, not from two hosts'.
//
// On the owner's own machine its death is seen at once (pid, start time, boot id, pid namespace; a zombie is
// dead). From anywhere else a lease is dead when it was not renewed for kLeaseExpiry.
// Threads: one Lease belongs to one thread at a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "common/status.h"
#include "launcher/process_identity.h"

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

  // kAborted if somebody else took it over, or the run directory is gone: the caller must stop at once and
  // write nothing more. kIo may pass: try again, and stop when no renewal worked for kLeaseExpiry.
  Status renew();
  // Gives back what this object holds, and only that. Nothing happens a second time.
  void release();

 private:
  Lease(std::filesystem::path directory, int number, int fd)
      : directory_(std::move(directory)), number_(number), fd_(fd) {}
  std::filesystem::path directory_;
  int number_ = 0;
  int fd_ = -1;  // of our own file; -1: released or moved from
};

// Who holds the run now, if somebody alive does. Changes nothing, and needs no right to write. From another
// host the answer depends on this host's clock: good for showing, not for deciding (acquire() decides).
std::optional<ProcessIdentity> live_lease_holder(const std::filesystem::path& run_directory);

}  // namespace muster
