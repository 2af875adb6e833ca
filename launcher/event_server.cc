#include "launcher/event_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "common/event_channel.h"
#include "common/file_ops.h"
#include "common/json_fields.h"
#include "common/run_contract.h"
#include "common/sha256.h"
#include "common/version.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr std::size_t kHelloBytesMax = std::size_t{16} << 10;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kReadsPerTurn = 16;  // so that one talkative rank does not starve the others
constexpr std::size_t kStrangersMax = 64;
constexpr std::string_view kExecProgram = "muster exec";  // becomes the program, which connects by itself

bool same_secret(std::string_view a, std::string_view b) {
  // Hashed first, so that not even the length shows in the time it takes.
  const std::string hash_a = sha256_hex(a.data(), a.size());
  const std::string hash_b = sha256_hex(b.data(), b.size());
  return ::CRYPTO_memcmp(hash_a.data(), hash_b.data(), hash_a.size()) == 0;
}

// A socket's buffer holds a short line, or the other side is not one of ours. True if all of it was taken.
bool send_line(int fd, const json& message) {
  const std::string line = message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  const ssize_t sent = ::send(fd, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(line.size());
}

void keep_alive(int fd) {
  const int on = 1;
  const int idle_s = 10;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Result<SocketAddress> parse_numeric(const std::string& text) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    address.length = sizeof *v4;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    address.length = sizeof *v6;
  } else {
    return fail(ErrorCode::kInvalidArgument, "'{}' is no numeric address", text);
  }
  return address;
}

int port_of(int fd) {
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  ::getsockname(fd, bound.get(), &bound.length);
  if (bound.storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&bound.storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound.storage)->sin_port);
}

}  // namespace

Result<std::unique_ptr<EventServer>> EventServer::listen(const Options& options) {
  MUSTER_ASSIGN(const SocketAddress address, parse_numeric(options.bind_address));
  UniqueFd listener(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener || ::bind(listener.get(), address.get(), address.length) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    return fail(ErrorCode::kIo, "cannot listen for events on {}: {}", options.bind_address,
                errno_text(errno));
  }
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.fd = listener.get();
  if (!epoll || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, listener.get(), &interest) != 0) {
    return fail(ErrorCode::kIo, "cannot watch the event channel: {}", errno_text(errno));
  }
  const std::string host =
      address.storage.ss_family == AF_INET6 ? "[" + options.bind_address + "]" : options.bind_address;
  std::string published = fmt::format("tcp://{}:{}", host, port_of(listener.get()));
  return std::unique_ptr<EventServer>(
      new EventServer(options, std::move(listener), std::move(epoll), std::move(published)));
}

EventServer::EventServer(Options options, UniqueFd listener, UniqueFd epoll, std::string address)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      address_(std::move(address)),
      // A rank may have muster exec's connection and its program's open at once.
      connections_max_(kStrangersMax + 4 * static_cast<std::size_t>(options_.world_size)) {}

void EventServer::begin_generation(int generation) {
  generation_ = generation;
  connections_.clear();
}

int EventServer::rank_connections() const {
  int count = 0;
  for (const auto& [fd, connection] : connections_) count += connection.welcomed ? 1 : 0;
  return count;
}

bool EventServer::send(int rank, const json& request) {
  const auto program = std::find_if(connections_.begin(), connections_.end(), [&](const auto& entry) {
    const Connection& connection = entry.second;
    return connection.welcomed && connection.rank == rank && connection.program != kExecProgram;
  });
  if (program == connections_.end()) return false;
  if (send_line(program->second.fd.get(), request)) return true;
  connections_.erase(program);  // half a line may be on its way
  return false;
}

void EventServer::service(const Sink& sink) {
  std::array<epoll_event, 64> ready{};
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<std::size_t>(i)].data.fd;
    if (fd == listener_.get()) {
      accept_all();
      continue;
    }
    const auto connection = connections_.find(fd);
    if (connection != connections_.end() && !read(connection->second, sink)) connections_.erase(fd);
  }
  expire_silent();
}

void EventServer::accept_all() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    if (connections_.size() >= connections_max_) make_room();
    keep_alive(fd.get());
    epoll_event interest{};
    interest.events = EPOLLIN | EPOLLRDHUP;
    interest.data.fd = fd.get();
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &interest) != 0) continue;
    Connection connection;
    const int key = fd.get();
    connection.fd = std::move(fd);
    connection.hello_deadline = Deadline::after(options_.hello_timeout);
    connection.order = ++accepted_;
    connections_.insert_or_assign(key, std::move(connection));
  }
}

// Strangers must not keep ranks out: the one that has said nothing for longest goes.
void EventServer::make_room() {
  auto oldest = connections_.end();
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    if (it->second.welcomed) continue;
    if (oldest == connections_.end() || it->second.order < oldest->second.order) oldest = it;
  }
  if (oldest == connections_.end()) {  // all welcomed: somebody with the key opens too many
    oldest = connections_.begin();
  }
  ++counters_.refused;
  connections_.erase(oldest);
}

void EventServer::expire_silent() {
  counters_.refused += std::erase_if(connections_, [](const auto& entry) {
    return !entry.second.welcomed && entry.second.hello_deadline.expired();
  });
}

bool EventServer::read(Connection& connection, const Sink& sink) {
  std::vector<char> buffer(kReadBytes);
  for (std::size_t turn = 0; turn < kReadsPerTurn; ++turn) {
    const ssize_t got = ::recv(connection.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) {
      if (!connection.welcomed) ++counters_.refused;
      return false;
    }
    connection.received.append(buffer.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = connection.received.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      if (!take_line(connection, std::string_view(connection.received).substr(begin, end - begin), sink)) {
        return false;
      }
    }
    connection.received.erase(0, begin);
    const std::size_t limit = connection.welcomed ? EventChannel::kLineBytesMax : kHelloBytesMax;
    if (connection.received.size() > limit) {
      ++(connection.welcomed ? counters_.malformed_lines : counters_.refused);
      return false;
    }
  }
  return true;
}

bool EventServer::take_line(Connection& connection, std::string_view line, const Sink& sink) {
  if (!connection.welcomed) return take_hello(connection, line, sink);
  json event = json::parse(line, nullptr, false);
  if (text_field(event, "event").empty()) {
    ++counters_.malformed_lines;
    return true;
  }
  event["generation"] = generation_;
  event["rank"] = connection.rank;
  event["node"] = connection.node;
  sink({generation_, connection.rank, connection.node, connection.program, std::move(event)});
  return true;
}

std::string EventServer::objection_to(const json& hello) {
  const std::int64_t protocol = integer_field(hello, "protocol", -1);
  if (protocol != contract::kProtocolVersion) {
    return fmt::format("it speaks protocol {} (version {}), this muster speaks {} (version {})", protocol,
                       text_field(hello, "version", "unknown"), contract::kProtocolVersion, kVersion);
  }
  if (text_field(hello, "run") != options_.run_id) {
    return fmt::format("it belongs to run '{}', this is run '{}'", text_field(hello, "run"), options_.run_id);
  }
  const std::int64_t generation = integer_field(hello, "generation", -1);
  if (generation != generation_) {
    ++counters_.stale_generation;
    return fmt::format("it belongs to attempt {}, the current one is {}", generation, generation_);
  }
  const std::int64_t world_size = integer_field(hello, "world_size", -1);
  if (world_size != options_.world_size) {
    return fmt::format("it believes in a world of {} ranks, this run has {}", world_size,
                       options_.world_size);
  }
  const std::int64_t rank = integer_field(hello, "rank", -1);
  if (rank < 0 || rank >= options_.world_size) {
    return fmt::format("rank {} is outside 0 … {}", rank, options_.world_size - 1);
  }
  return "";
}

bool EventServer::take_hello(Connection& connection, std::string_view line, const Sink& sink) {
  json hello = json::parse(line, nullptr, false);
  if (text_field(hello, "event") != contract::event::kHello ||
      !same_secret(text_field(hello, "key"), options_.key)) {
    ++counters_.refused;
    send_line(connection.fd.get(), {{"event", "refused"}, {"reason", "no hello, or not this run's key"}});
    return false;
  }
  if (const std::string objection = objection_to(hello); !objection.empty()) {
    ++counters_.refused;
    send_line(connection.fd.get(), {{"event", "refused"}, {"reason", objection}});
    return false;
  }
  hello.erase("key");
  connection.welcomed = true;
  connection.rank = static_cast<int>(integer_field(hello, "rank", -1));
  connection.node = text_field(hello, "node");
  connection.program = text_field(hello, "program");
  send_line(connection.fd.get(),
            {{"event", "welcome"}, {"protocol", contract::kProtocolVersion}, {"version", kVersion}});
  sink({generation_, connection.rank, connection.node, connection.program, std::move(hello)});
  return true;
}

}  // namespace muster
