// Which of this machine's addresses the other nodes should use. Choosing is a pure function of what the
// machine has; a thin reader asks the kernel and the resolver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster {

struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric
  bool ipv6 = false;
  bool loopback = false;
};

// Addresses of interfaces that are up; IPv6 link-local ones are left out, since they need a scope.
Result<std::vector<InterfaceAddress>> local_addresses();

// What the host's own name resolves to, numeric; empty if it does not resolve.
std::vector<std::string> addresses_of_own_name(const std::string& host);

// The address of `interface` if one is named (IPv4 before IPv6). Otherwise the first address that the host's
// name resolves to, is this machine's and is no loopback; failing that, the only address it could be.
// kInvalidArgument: no such interface, or the choice is not clear (the message lists what there is).
Result<std::string> choose_address(std::string_view interface, const std::vector<InterfaceAddress>& local,
                                   const std::vector<std::string>& of_own_name);

}  // namespace muster
