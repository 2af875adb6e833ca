#include "launcher/tcp_rendezvous.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "common/file_ops.h"
#include "common/json_fields.h"
#include "common/sha256.h"
#include "common/stream_socket.h"
#include "launcher/network_address.h"

namespace muster {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t kPorts = 8;
constexpr unsigned kFirstPort = 20000;
constexpr unsigned kPortRange = 12000;
constexpr milliseconds kTryWait{1000};    // for one connection
constexpr milliseconds kHelloWait{2000};  // for what a connection has to say
constexpr milliseconds kFirstPause{2};
constexpr milliseconds kLongestPause{100};
constexpr std::size_t kHelloBytesMax = 4096;
constexpr std::size_t kTableBytesMax = std::size_t{64} << 20;
constexpr std::size_t kRanksNamedMax = 8;
constexpr std::string_view kRank0 = "rank 0";

std::string line_of(const json& message) {
  return message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

// One descriptor a rank.
void allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Empty if somebody listens there. A port whose last connections are only just over is free.
UniqueFd listen_on(const sockaddr* address, socklen_t length) {
  UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  const int on = 1;
  const int off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const bool listens = ::bind(fd.get(), address, length) == 0 && ::listen(fd.get(), SOMAXCONN) == 0;
  return listens ? std::move(fd) : UniqueFd();
}

// Both IP versions, or IPv4 alone where there is no other.
UniqueFd listen_on(std::uint16_t port) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  any6.sin6_addr = in6addr_any;
  UniqueFd fd = listen_on(reinterpret_cast<const sockaddr*>(&any6), sizeof any6);
  if (fd || errno == EADDRINUSE) return fd;
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  any4.sin_addr.s_addr = htonl(INADDR_ANY);
  return listen_on(reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
}

Result<UniqueFd> listen_at(const std::vector<std::uint16_t>& ports) {
  for (const std::uint16_t port : ports) {
    if (UniqueFd fd = listen_on(port)) return fd;
  }
  return fail(ErrorCode::kUnavailable, "none of the ports {} is free for the ranks to meet at: {}",
              fmt::join(ports, ", "), errno_text(errno));
}

// Rank 0: gathers one connection of each other rank.
class Host {
 public:
  Host(const std::string& key, int world_size, UniqueFd listener)
      : key_(key), world_size_(world_size), listener_(std::move(listener)) {}

  // Takes one connection, if one comes in time. What is no rank of this start is turned away.
  void take_one(Deadline deadline) {
    pollfd entry{listener_.get(), POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(deadline.remaining().count())) <= 0) return;
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    const auto line = receive_line(fd.get(), kHelloBytesMax, "a rank", Deadline::after(kHelloWait));
    const json hello = line ? json::parse(*line, nullptr, false) : json();
    if (!hello.is_object() || text_field(hello, "key") != key_) return;
    const auto rank = static_cast<int>(integer_field(hello, "rank", -1));
    if (rank < 1 || rank >= world_size_) return;
    if (!send_all(fd.get(), line_of({{"key", key_}}), "a rank", Deadline::after(kHelloWait))) return;
    guests_[rank] = {std::move(fd), text_field(hello, "node")};  // who comes again has lost its connection
  }

  bool complete() const { return guests_.size() + 1 == static_cast<std::size_t>(world_size_); }

  std::vector<std::string> nodes(const std::string& own) const {
    std::vector<std::string> nodes{own};
    for (const auto& [rank, guest] : guests_) nodes.push_back(guest.node);
    return nodes;
  }

  std::string missing() const {
    std::vector<int> ranks;
    for (int rank = 1; rank < world_size_; ++rank) {
      if (!guests_.contains(rank)) ranks.push_back(rank);
    }
    if (ranks.size() <= kRanksNamedMax) return fmt::format("{}", fmt::join(ranks, ", "));
    const std::size_t all = ranks.size();
    ranks.resize(kRanksNamedMax);
    return fmt::format("{} … ({} ranks)", fmt::join(ranks, ", "), all);
  }

  Status answer(const json& table, Deadline deadline) {
    const std::string line = line_of(table);
    for (auto& [rank, guest] : guests_) {
      MUSTER_TRY(send_all(guest.connection.get(), line, fmt::format("rank {}", rank), deadline));
    }
    return {};
  }

 private:
  struct Guest {
    UniqueFd connection;
    std::string node;
  };
  const std::string& key_;
  int world_size_;
  UniqueFd listener_;
  std::map<int, Guest> guests_;
};

// Numeric addresses of the hosts; what does not resolve is left out.
std::vector<std::string> addresses_of(const std::vector<std::string>& hosts) {
  std::vector<std::string> addresses;
  for (const std::string& name : hosts) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) continue;
    for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
      std::array<char, NI_MAXHOST> text{};
      if (::getnameinfo(info->ai_addr, info->ai_addrlen, text.data(), text.size(), nullptr, 0,
                        NI_NUMERICHOST) == 0)
        addresses.emplace_back(text.data());
    }
    ::freeaddrinfo(found);
  }
  return addresses;
}

// Others would look for rank 0 in vain.
Status check_place(const MeetingPoint& point) {
  MUSTER_ASSIGN(const std::vector<InterfaceAddress> local, local_addresses());
  for (const std::string& address : addresses_of(point.hosts)) {
    // A host's own name may stand for any loopback address.
    if (address.starts_with("127.")) return {};
    for (const InterfaceAddress& own : local) {
      if (own.address == address) return {};
    }
  }
  return fail(
      ErrorCode::kInvalidArgument,
      "the ranks are on several nodes, and rank 0 does not run on {}, where the others would look for "
      "it: give --rendezvous-dir DIR (a directory that all nodes share), or set MASTER_ADDR and "
      "MASTER_PORT",
      fmt::join(point.hosts, ", "));
}

Result<RendezvousTable> lead(const MeetingPoint& point, int world_size, const std::string& node,
                             const MasterChoice& choose_master, Deadline deadline) {
  MUSTER_TRY(check_place(point));
  allow_many_descriptors();
  MUSTER_ASSIGN(UniqueFd listener, listen_at(meeting_ports(point.key)));
  Host host(point.key, world_size, std::move(listener));
  while (!host.complete() && !deadline.expired()) host.take_one(deadline);
  if (!host.complete()) {
    return fail(
        ErrorCode::kDeadlineExceeded,
        "waited in vain for {} of {} ranks at {}: did they start, and can their nodes reach this one? "
        "If not, give --rendezvous-dir DIR (a directory that all nodes share)",
        host.missing(), world_size, fmt::join(point.hosts, ", "));
  }
  RendezvousTable table;
  table.node_of_rank = host.nodes(node);
  MUSTER_ASSIGN(table.master, choose_master(table.node_of_rank));
  MUSTER_TRY(host.answer(
      {{"nodes", table.node_of_rank}, {"address", table.master.address}, {"port", table.master.port}},
      deadline));
  return table;
}

// A connection to rank 0, which knows us now; none if it is not there.
std::optional<UniqueFd> knock(const std::string& address, const json& hello) {
  auto fd = connect_to(address, kRank0, Deadline::after(kTryWait));
  if (!fd || !send_all(fd->get(), line_of(hello), kRank0, Deadline::after(kTryWait))) return std::nullopt;
  const auto line = receive_line(fd->get(), kHelloBytesMax, kRank0, Deadline::after(kHelloWait));
  const json answer = line ? json::parse(*line, nullptr, false) : json();
  if (!answer.is_object() || text_field(answer, "key") != text_field(hello, "key")) return std::nullopt;
  return std::move(*fd);
}

Result<UniqueFd> find_rank_0(const MeetingPoint& point, const json& hello, Deadline deadline) {
  const std::vector<std::uint16_t> ports = meeting_ports(point.key);
  std::vector<std::string> hosts;
  for (milliseconds pause = kFirstPause; !deadline.expired(); pause = std::min(pause * 2, kLongestPause)) {
    if (hosts.empty()) hosts = addresses_of(point.hosts);
    for (const std::string& host : hosts) {
      const std::string quoted = host.find(':') == std::string::npos ? host : "[" + host + "]";
      for (const std::uint16_t port : ports) {
        const std::string address = fmt::format("tcp://{}:{}", quoted, port);
        if (auto fd = knock(address, hello)) return *std::move(fd);
      }
    }
    std::this_thread::sleep_for(std::min(pause, deadline.remaining()));
  }
  return fail(
      ErrorCode::kDeadlineExceeded,
      "rank 0 did not show up at {}: did all ranks start, is it there, and can this node reach it? If "
      "not, give --rendezvous-dir DIR (a directory that all nodes share)",
      fmt::join(point.hosts, ", "));
}

Result<RendezvousTable> follow(const MeetingPoint& point, int rank, const std::string& node,
                               Deadline deadline) {
  const json hello{{"key", point.key}, {"rank", rank}, {"node", node}};
  MUSTER_ASSIGN(const UniqueFd rank_0, find_rank_0(point, hello, deadline));
  MUSTER_ASSIGN(const std::string line, receive_line(rank_0.get(), kTableBytesMax, kRank0, deadline));
  const json table = json::parse(line, nullptr, false);
  const auto port = table.is_object() ? integer_field(table, "port", 0) : 0;
  if (port < 1 || port > 65535 || !table.contains("nodes") || !table.at("nodes").is_array()) {
    return fail(ErrorCode::kMismatch, "rank 0 answered with something that is no table of ranks");
  }
  return RendezvousTable{{text_field(table, "address"), static_cast<std::uint16_t>(port)},
                         table.at("nodes").get<std::vector<std::string>>()};
}

}  // namespace

std::vector<std::uint16_t> meeting_ports(std::string_view key) {
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 0; ports.size() < kPorts; ++i) {
    const std::string text = fmt::format("{} {}", key, i);
    const unsigned long hash = std::stoul(sha256_hex(text.data(), text.size()).substr(0, 8), nullptr, 16);
    const auto port = static_cast<std::uint16_t>(kFirstPort + hash % kPortRange);
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
  }
  return ports;
}

Result<RendezvousTable> meet_at(const MeetingPoint& point, int rank, int world_size, const std::string& node,
                                const MasterChoice& choose_master, Deadline deadline) {
  return rank == 0 ? lead(point, world_size, node, choose_master, deadline)
                   : follow(point, rank, node, deadline);
}

std::vector<std::string> mpirun_hosts(const Environment& environment) {
  // "JOBID.0;tcp://10.0.0.1,192.168.0.1:41234;tcp6://[fd00::1]:41235"
  const auto found = environment.find("OMPI_MCA_orte_hnp_uri");
  std::vector<std::string> hosts;
  if (found == environment.end()) return hosts;
  for (std::string_view rest = found->second; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t begin = part.find("://");
    if (begin == std::string_view::npos) continue;
    std::string_view list = part.substr(begin + 3, part.rfind(':') - begin - 3);
    if (list.starts_with('[') && list.ends_with(']')) list = list.substr(1, list.size() - 2);
    while (!list.empty()) {
      const std::string_view host = list.substr(0, list.find(','));
      if (!host.empty()) hosts.emplace_back(host);
      list.remove_prefix(std::min(host.size() + 1, list.size()));
    }
  }
  return hosts;
}

}  // namespace muster
