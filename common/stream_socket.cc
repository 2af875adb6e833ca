#include "common/stream_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "common/file_ops.h"

namespace muster {
namespace {

struct AddressInfoDeleter {
  void operator()(addrinfo* info) const { ::freeaddrinfo(info); }
};
using AddressInfo = std::unique_ptr<addrinfo, AddressInfoDeleter>;

// Numeric addresses only: a name lookup has no deadline.
Result<AddressInfo> parse_address(std::string_view address) {
  constexpr std::string_view kScheme = "tcp://";
  const std::size_t colon = address.rfind(':');
  if (!address.starts_with(kScheme) || colon == std::string_view::npos || colon < kScheme.size()) {
    return fail(ErrorCode::kInvalidArgument, "'{}' is no address; expected tcp://ADDRESS:PORT", address);
  }
  std::string host(address.substr(kScheme.size(), colon - kScheme.size()));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string port(address.substr(colon + 1));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return fail(ErrorCode::kInvalidArgument, "'{}' is no address ({}); expected tcp://ADDRESS:PORT", address,
                ::gai_strerror(error));
  }
  return AddressInfo(found);
}

Status wait_for(int fd, short events, std::string_view peer, std::string_view what, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(deadline.remaining().count()));
    if (ready > 0) return {};
    if (ready == 0 && deadline.expired()) {
      return fail(ErrorCode::kDeadlineExceeded, "{} did not {} in time", peer, what);
    }
    if (ready < 0 && errno != EINTR) return fail(ErrorCode::kIo, "poll: {}", errno_text(errno));
  }
}

// A peer whose machine vanished sends no FIN; the kernel finds out for us, in about 15 s.
void watch_for_silence(int fd) {
  const int on = 1;
  const int idle_s = 5;
  const int interval_s = 3;
  const int probes = 3;
  const unsigned unacknowledged_ms = 15000;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Result<UniqueFd> connect_to(std::string_view address, std::string_view peer, Deadline deadline) {
  MUSTER_ASSIGN(const AddressInfo info, parse_address(address));
  UniqueFd fd(::socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail(ErrorCode::kIo, "cannot make a socket: {}", errno_text(errno));
  if (::connect(fd.get(), info->ai_addr, info->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) {
      return fail(ErrorCode::kPeerLost, "cannot reach {} at {}: {}", peer, address, errno_text(errno));
    }
    MUSTER_TRY(wait_for(fd.get(), POLLOUT, peer, "accept the connection", deadline));
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      return fail(ErrorCode::kPeerLost, "cannot reach {} at {}: {}", peer, address, errno_text(error));
    }
  }
  watch_for_silence(fd.get());
  return fd;
}

Status send_all(int socket, std::string_view text, std::string_view peer, Deadline deadline) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      MUSTER_TRY(wait_for(socket, POLLOUT, peer, "read on", deadline));
    } else if (errno != EINTR) {
      return fail(ErrorCode::kPeerLost, "{} closed the connection: {}", peer, errno_text(errno));
    }
  }
  return {};
}

Result<std::string> receive_line(int socket, std::size_t bytes_max, std::string_view peer,
                                 Deadline deadline) {
  std::string line;
  char byte = 0;
  for (;;) {
    MUSTER_TRY(wait_for(socket, POLLIN, peer, "answer", deadline));
    const ssize_t got = ::recv(socket, &byte, 1, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return fail(ErrorCode::kPeerLost, "{} closed the connection before answering", peer);
    if (byte == '\n') return line;
    line.push_back(byte);
    if (line.size() > bytes_max)
      return fail(ErrorCode::kMismatch, "the answer of {} is no answer of muster", peer);
  }
}

}  // namespace muster
