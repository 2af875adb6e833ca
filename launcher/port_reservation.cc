#include "launcher/port_reservation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "common/file_ops.h"

namespace muster {
namespace {

constexpr int kTriesMax = 100;

// Bound to every address of both families, so that the port is free for whichever the program binds.
Result<UniqueFd> bind_any_port() {
  const int on = 1;
  const int off = 0;
  if (UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)); socket) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0) return socket;
  }
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) {
    return fail(ErrorCode::kIo, "cannot bind a TCP port: {}", errno_text(errno));
  }
  return socket;
}

std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// Nothing if another rank's program has the port's name, though it may not have bound the port yet.
Result<std::optional<UniqueFd>> claim(std::uint16_t port) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = fmt::format("muster-master-port-{}", port);
  std::memcpy(name.sun_path + 1, text.data(), text.size());  // a leading NUL: no file
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0) {
    return std::optional(std::move(socket));
  }
  if (errno == EADDRINUSE) return std::optional<UniqueFd>();
  return fail(ErrorCode::kIo, "cannot claim port {}: {}", port, errno_text(errno));
}

}  // namespace

Result<PortReservation> PortReservation::make() {
  for (int i = 0; i < kTriesMax; ++i) {
    MUSTER_ASSIGN(UniqueFd socket, bind_any_port());
    const std::uint16_t port = port_of(socket.get());
    MUSTER_ASSIGN(std::optional<UniqueFd> claimed, claim(port));
    if (claimed) return PortReservation(port, std::move(socket), *std::move(claimed));
  }
  return fail(ErrorCode::kIo, "no free TCP port in {} tries: all were just taken by other ranks", kTriesMax);
}

void PortReservation::hand_over_at_exec() {
  ::fcntl(claim_.get(), F_SETFD, 0);
  claim_.release();
  socket_.reset();
}

}  // namespace muster
