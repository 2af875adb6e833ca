// A bound, non-blocking UDP socket, and the choice of the address it is bound to.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "common/status.h"

namespace muster::comm {

// An IPv4 or IPv6 address with its port. Plain bytes, so that it can be sent to other ranks.
struct UdpAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  bool operator==(const UdpAddress& other) const;
};

// "10.0.0.2:4711"
std::string to_string(const UdpAddress& address);

UdpAddress loopback_address();

// The address (port 0) of the named interface; of the first one that is up and not loopback if the name is
// empty. kInvalidArgument or kNotFound lists the interfaces there are.
Result<UdpAddress> interface_address(const std::string& interface);

// The own address (port 0) from which packets to that host would be sent. kNotFound if there is no route, or
// only a loopback one. Looks the name up, which may take as long as DNS does.
Result<UdpAddress> address_towards(const std::string& host);

class UdpSocket {
 public:
  static Result<UdpSocket> bind(const UdpAddress& address);
  UdpSocket(UdpSocket&& other) noexcept;
  UdpSocket& operator=(UdpSocket&&) = delete;
  ~UdpSocket();

  int descriptor() const { return descriptor_; }
  const UdpAddress& address() const { return address_; }  // with the port that the system chose

  // Sends or drops; never blocks. Any thread.
  void send(std::span<const std::byte> bytes, const UdpAddress& to) const;
  // The length of the next datagram, if there is one.
  std::optional<std::size_t> receive(std::span<std::byte> buffer) const;
  // Calls back with each address that has answered "nobody listens here" since the last call.
  void take_refusals(const std::function<void(const UdpAddress&)>& refused) const;

 private:
  UdpSocket(int descriptor, const UdpAddress& address) : descriptor_(descriptor), address_(address) {}

  int descriptor_;
  UdpAddress address_;
};

}  // namespace muster::comm
