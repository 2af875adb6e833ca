// TCP connections that carry lines of text, with a deadline on every wait. Threads: one socket, one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace muster {

// Connects to tcp://ADDRESS:PORT; IPv6 addresses in brackets, numbers only (a name lookup has no deadline).
// `peer` names who is there, for messages. kInvalidArgument: no such address; kPeerLost: nobody listens;
// kDeadlineExceeded. The socket is non-blocking; the kernel notices within some 15 s if the other machine
// vanishes.
Result<UniqueFd> connect_to(std::string_view address, std::string_view peer, Deadline deadline);

// kPeerLost if the peer closed the connection.
Status send_all(int socket, std::string_view text, std::string_view peer, Deadline deadline);

// The next line, without its newline; nothing beyond it is read. kMismatch if it is longer than bytes_max.
Result<std::string> receive_line(int socket, std::size_t bytes_max, std::string_view peer, Deadline deadline);

}  // namespace muster
