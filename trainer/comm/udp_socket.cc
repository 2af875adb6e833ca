#include "trainer/comm/udp_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace muster::comm {
namespace {

const sockaddr* as_sockaddr(const UdpAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

template <class Address>
UdpAddress wrap(const Address& native) {
  UdpAddress address;
  std::memcpy(&address.storage, &native, sizeof(native));
  address.length = sizeof(native);
  return address;
}

bool is_candidate(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr) return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  // A link-local address means nothing without the sender's own interface number.
  const auto* native = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  return !IN6_IS_ADDR_LINKLOCAL(&native->sin6_addr);
}

UdpAddress address_of(const ifaddrs& entry) {
  if (entry.ifa_addr->sa_family == AF_INET)
    return wrap(*reinterpret_cast<const sockaddr_in*>(entry.ifa_addr));
  return wrap(*reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr));
}

bool is_loopback(const UdpAddress& address) {
  if (address.storage.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

bool set_option(int descriptor, int level, int name) {
  const int on = 1;
  return ::setsockopt(descriptor, level, name, &on, sizeof(on)) == 0;
}

}  // namespace

bool UdpAddress::operator==(const UdpAddress& other) const {
  if (storage.ss_family != other.storage.ss_family) return false;
  if (storage.ss_family == AF_INET) {
    const auto& mine = reinterpret_cast<const sockaddr_in&>(storage);
    const auto& its = reinterpret_cast<const sockaddr_in&>(other.storage);
    return mine.sin_port == its.sin_port && mine.sin_addr.s_addr == its.sin_addr.s_addr;
  }
  const auto& mine = reinterpret_cast<const sockaddr_in6&>(storage);
  const auto& its = reinterpret_cast<const sockaddr_in6&>(other.storage);
  return mine.sin6_port == its.sin6_port && IN6_ARE_ADDR_EQUAL(&mine.sin6_addr, &its.sin6_addr);
}

std::string to_string(const UdpAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.storage.ss_family == AF_INET) {
    const auto& native = reinterpret_cast<const sockaddr_in&>(address.storage);
    inet_ntop(AF_INET, &native.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(native.sin_port));
  }
  const auto& native = reinterpret_cast<const sockaddr_in6&>(address.storage);
  inet_ntop(AF_INET6, &native.sin6_addr, text.data(), text.size());
  return fmt::format("[{}]:{}", text.data(), ntohs(native.sin6_port));
}

UdpAddress loopback_address() {
  sockaddr_in native{};
  native.sin_family = AF_INET;
  native.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return wrap(native);
}

Result<UdpAddress> interface_address(const std::string& interface) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    return fail(ErrorCode::kIo, "cannot list network interfaces: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, &::freeifaddrs);
  std::string known;
  std::optional<UdpAddress> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (!is_candidate(*entry)) continue;
    const UdpAddress address = address_of(*entry);
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", entry->ifa_name, to_string(address));
    const bool usable = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    const bool wanted = interface.empty() ? usable : interface == entry->ifa_name;
    // IPv4 first: an IPv6 address may be there without a route.
    if (wanted && (!found || (found->storage.ss_family == AF_INET6 && address.storage.ss_family == AF_INET)))
      found = address;
  }
  if (found) return *found;
  if (interface.empty())
    return fail(ErrorCode::kNotFound,
                "no network interface is up with an address other hosts can reach; there are: {}", known);
  return fail(ErrorCode::kInvalidArgument, "no network interface '{}' with an IP address; there are: {}",
              interface, known);
}

Result<UdpAddress> address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  if (const int problem = ::getaddrinfo(host.c_str(), "9", &hints, &first); problem != 0)
    return fail(ErrorCode::kNotFound, "cannot look up {}: {}", host, ::gai_strerror(problem));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(first, &::freeaddrinfo);
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    const FileDescriptor probe(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    UdpAddress address;
    address.length = sizeof(address.storage);
    auto* own = reinterpret_cast<sockaddr*>(&address.storage);
    // Connecting a UDP socket sends nothing, but picks the route.
    if (probe.get() < 0 || ::connect(probe.get(), entry->ai_addr, entry->ai_addrlen) != 0 ||
        ::getsockname(probe.get(), own, &address.length) != 0 || is_loopback(address))
      continue;
    if (entry->ai_family == AF_INET) reinterpret_cast<sockaddr_in&>(address.storage).sin_port = 0;
    if (entry->ai_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = 0;
    return address;
  }
  return fail(ErrorCode::kNotFound, "no route to {} but over loopback", host);
}

Result<UdpSocket> UdpSocket::bind(const UdpAddress& address) {
  const int family = address.storage.ss_family;
  const int descriptor = ::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return fail(ErrorCode::kIo, "cannot make a UDP socket: {}", std::strerror(errno));
  UdpSocket result(descriptor, address);
  result.address_.length = sizeof(result.address_.storage);
  auto* bound = reinterpret_cast<sockaddr*>(&result.address_.storage);
  const bool reports_refusals = family == AF_INET ? set_option(descriptor, IPPROTO_IP, IP_RECVERR)
                                                  : set_option(descriptor, IPPROTO_IPV6, IPV6_RECVERR);
  if (!reports_refusals || ::bind(descriptor, as_sockaddr(address), address.length) != 0 ||
      ::getsockname(descriptor, bound, &result.address_.length) != 0)
    return fail(ErrorCode::kIo, "cannot bind a UDP socket to {}: {}", to_string(address),
                std::strerror(errno));
  return result;
}

UdpSocket::UdpSocket(UdpSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), address_(other.address_) {}

UdpSocket::~UdpSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void UdpSocket::send(std::span<const std::byte> bytes, const UdpAddress& to) const {
  // A call may fail with the refusal of an earlier datagram, which has nothing to do with this one.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (::sendto(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL, as_sockaddr(to), to.length) >= 0)
      return;
  }
}

std::optional<std::size_t> UdpSocket::receive(std::span<std::byte> buffer) const {
  for (;;) {
    const ssize_t length = ::recv(descriptor_, buffer.data(), buffer.size(), 0);
    if (length >= 0) return static_cast<std::size_t>(length);
    if (errno != ECONNREFUSED && errno != EINTR) return std::nullopt;
  }
}

void UdpSocket::take_refusals(const std::function<void(const UdpAddress&)>& refused) const {
  for (;;) {
    UdpAddress destination;
    std::array<char, 512> control{};
    msghdr message{};
    message.msg_name = &destination.storage;
    message.msg_namelen = sizeof(destination.storage);
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(descriptor_, &message, MSG_ERRQUEUE) < 0) return;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
      const bool is_error = (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR) ||
                            (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR);
      if (!is_error) continue;
      sock_extended_err error{};
      std::memcpy(&error, CMSG_DATA(part), sizeof(error));
      if (error.ee_errno == ECONNREFUSED) refused(destination);
    }
  }
}

}  // namespace muster::comm
