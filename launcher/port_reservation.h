// MASTER_PORT: a TCP port of this machine that is free, found by binding it (the kernel picks), and held
// until the program is about to bind it itself.
//
// Between release and the program's own bind there is a small window in which a stranger's process might be
// given the port by the kernel; the program then fails to bind and the attempt is retried with another port.
// Other ranks of muster never are: each port is also claimed by a name in the kernel's abstract socket space,
// which lives in the same network namespace as the port and is inherited over exec, so that the claim ends
// with the program (which sees one more open file descriptor). Threads: one object, one thread.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "common/unique_fd.h"

namespace muster {

class PortReservation {
 public:
  static Result<PortReservation> make();

  std::uint16_t port() const { return port_; }
  // Frees the port for the program. The claim stays open over exec, and until this process ends.
  void hand_over_at_exec();

 private:
  PortReservation(std::uint16_t port, UniqueFd socket, UniqueFd claim)
      : port_(port), socket_(std::move(socket)), claim_(std::move(claim)) {}
  std::uint16_t port_;
  UniqueFd socket_;  // bound, not listening
  UniqueFd claim_;
};

}  // namespace muster
