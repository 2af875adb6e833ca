// Which address of this machine the ranks of a run can reach.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "common/unique_fd.h"
#include "launcher/event_server.h"

namespace muster {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

struct AddressInfoDeleter {
  void operator()(addrinfo* info) const { ::freeaddrinfo(info); }
};
struct InterfacesDeleter {
  void operator()(ifaddrs* interfaces) const { ::freeifaddrs(interfaces); }
};
using Interfaces = std::unique_ptr<ifaddrs, InterfacesDeleter>;

std::string numeric(const sockaddr* address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text.data();
}

Interfaces interfaces_of_this_machine() {
  ifaddrs* list = nullptr;
  return Interfaces(::getifaddrs(&list) == 0 ? list : nullptr);
}

bool has_ip(const ifaddrs* interface) {
  return interface->ifa_addr != nullptr &&
         (interface->ifa_addr->sa_family == AF_INET || interface->ifa_addr->sa_family == AF_INET6);
}

bool is_own_address(const std::string& address) {
  if (address.starts_with("127.")) return true;  // Debian gives the host name 127.0.1.1
  const Interfaces list = interfaces_of_this_machine();
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (has_ip(entry) && numeric(entry->ifa_addr) == address) return true;
  }
  return false;
}

Result<std::string> address_of_interface(const std::string& name) {
  const Interfaces list = interfaces_of_this_machine();
  std::string known;
  std::string v6;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (!has_ip(entry)) continue;
    if (known.find(entry->ifa_name) == std::string::npos)
      known += (known.empty() ? "" : ", ") + std::string(entry->ifa_name);
    if (name != entry->ifa_name) continue;
    if (entry->ifa_addr->sa_family == AF_INET) return numeric(entry->ifa_addr);
    const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
    if (!IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) v6 = numeric(entry->ifa_addr);
  }
  if (!v6.empty()) return v6;
  return fail(ErrorCode::kUnavailable,
              "network interface '{}' has no address on this machine; interfaces with one: {}", name, known);
}

// The local end of the route to a host: a connected datagram socket knows it without sending anything.
std::string source_address_towards(const addrinfo& host) {
  const UniqueFd fd(::socket(host.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return "";
  sockaddr_storage target{};
  std::copy_n(reinterpret_cast<const char*>(host.ai_addr), host.ai_addrlen, reinterpret_cast<char*>(&target));
  const in_port_t any_port = htons(9);
  if (host.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&target)->sin6_port = any_port;
  } else {
    reinterpret_cast<sockaddr_in*>(&target)->sin_port = any_port;
  }
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&target), host.ai_addrlen) != 0) return "";
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) return "";
  return numeric(reinterpret_cast<const sockaddr*>(&own));
}

bool is_this_machine(const std::string& host) {
  std::array<char, 256> own_name{};
  ::gethostname(own_name.data(), own_name.size() - 1);
  return host == "localhost" || host == own_name.data() || is_own_address(host);
}

}  // namespace

Result<std::string> event_address_for(const std::vector<std::string>& hosts, const std::string& interface) {
  std::string unreachable;
  bool all_local = true;
  std::string routed;
  for (const std::string& host : hosts) {
    if (is_this_machine(host)) continue;
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
      all_local = false;
      if (unreachable.empty()) unreachable = host;
      continue;
    }
    const std::unique_ptr<addrinfo, AddressInfoDeleter> info(found);
    if (is_own_address(numeric(info->ai_addr))) continue;
    all_local = false;
    if (routed.empty()) routed = source_address_towards(*info);
    if (routed.empty() && unreachable.empty()) unreachable = host;
  }
  if (all_local) return std::string(kLoopback);
  if (!interface.empty()) return address_of_interface(interface);
  if (!routed.empty()) return routed;
  return fail(
      ErrorCode::kUnavailable,
      "no route to host '{}' (unknown name?): write an address that can be reached into the host file, or "
      "name the interface to use (network: interface:)",
      unreachable);
}

}  // namespace muster
