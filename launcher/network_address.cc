#include "launcher/network_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>

#include "common/file_ops.h"

namespace muster {
namespace {

std::optional<std::string> numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return std::nullopt;
  }
  return text.data();
}

std::string describe(const std::vector<InterfaceAddress>& addresses) {
  std::string text;
  for (const InterfaceAddress& address : addresses) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", address.interface, address.address);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

Result<std::vector<InterfaceAddress>> local_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return fail(ErrorCode::kIo, "cannot list network interfaces: {}", errno_text(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const bool ipv6 = family == AF_INET6;
    if (ipv6 &&
        IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr) != 0) {
      continue;
    }
    const auto text = numeric(entry->ifa_addr, ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    if (!text) continue;
    addresses.push_back({entry->ifa_name, *text, ipv6, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return addresses;
}

std::vector<std::string> addresses_of_own_name(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  std::vector<std::string> addresses;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return addresses;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (const auto text = numeric(entry->ai_addr, entry->ai_addrlen)) addresses.push_back(*text);
  }
  return addresses;
}

Result<std::string> choose_address(std::string_view interface, const std::vector<InterfaceAddress>& local,
                                   const std::vector<std::string>& of_own_name) {
  std::vector<InterfaceAddress> fitting;
  std::copy_if(local.begin(), local.end(), std::back_inserter(fitting), [&](const InterfaceAddress& a) {
    return interface.empty() ? !a.loopback : a.interface == interface;
  });
  std::stable_partition(fitting.begin(), fitting.end(), [](const InterfaceAddress& a) { return !a.ipv6; });
  if (!interface.empty()) {
    if (!fitting.empty()) return fitting.front().address;
    return fail(ErrorCode::kInvalidArgument,
                "network interface '{}' has no address on this node, or is not up; there are: {}", interface,
                describe(local));
  }
  for (const std::string& candidate : of_own_name) {
    for (const InterfaceAddress& address : fitting) {
      if (address.address == candidate) return candidate;
    }
  }
  const auto ipv4_count =
      std::count_if(fitting.begin(), fitting.end(), [](const InterfaceAddress& a) { return !a.ipv6; });
  if (ipv4_count == 1 || fitting.size() == 1) return fitting.front().address;
  return fail(
      ErrorCode::kInvalidArgument,
      "cannot tell which address other nodes reach this one by: its host name resolves to none of its "
      "own ({}). Name the interface: network.interface in the task file, or "
      "MUSTER_NETWORK_INTERFACE",
      describe(fitting));
}

}  // namespace muster
