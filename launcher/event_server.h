// The supervisor's end of the event channel (common/event_channel.h): TCP, JSON lines, non-blocking.
//
// A connection says hello first: right key (compared in constant time), protocol, run, generation, world size
// and a rank in range, within a deadline and a short line. Then it is welcomed, and its lines become events,
// stamped with the rank and generation of the hello. Anything else is refused and has no effect. When a new
// generation begins, the connections of the old one are closed, and what they still had to say is dropped.
//
// Threads: used by the supervisor's thread only. Nothing blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace muster {

class EventServer {
 public:
  struct Options {
    std::string bind_address = "127.0.0.1";  // numeric; also what is published
    std::string run_id;
    std::string key;
    int world_size = 1;
    std::chrono::milliseconds hello_timeout{10000};
  };
  struct RankEvent {
    int generation = 0;
    int rank = 0;
    std::string node;
    std::string program;  // of the hello: "muster exec", "muster-train", …
    nlohmann::json event;
  };
  struct Counters {
    std::uint64_t refused = 0;           // connections with a bad hello, or too late with it
    std::uint64_t malformed_lines = 0;   // of welcomed connections
    std::uint64_t stale_generation = 0;  // connections of an old generation
  };
  using Sink = std::function<void(const RankEvent&)>;

  // Binds a port of the kernel's choice before anybody is told about it.
  static Result<std::unique_ptr<EventServer>> listen(const Options& options);

  EventServer(const EventServer&) = delete;
  EventServer& operator=(const EventServer&) = delete;
  ~EventServer() = default;

  std::string address() const { return address_; }  // tcp://ADDRESS:PORT
  // Readable when service() has something to do. Call service() once a second besides, for the deadlines.
  int fd() const { return epoll_.get(); }
  void service(const Sink& sink);

  // From now on only this generation is welcome.
  void begin_generation(int generation);
  // Sends a line to the program of a rank. False: it is not connected, or does not read.
  bool send(int rank, const nlohmann::json& request);
  // Welcomed connections that are still open.
  int rank_connections() const;
  const Counters& counters() const { return counters_; }

 private:
  struct Connection {
    UniqueFd fd;
    bool welcomed = false;
    Deadline hello_deadline = Deadline::after(std::chrono::milliseconds(0));
    std::uint64_t order = 0;  // of arrival
    std::string received;
    int rank = -1;
    std::string node;
    std::string program;
  };
  EventServer(Options options, UniqueFd listener, UniqueFd epoll, std::string address);
  void accept_all();
  void make_room();
  // False: close the connection.
  bool read(Connection& connection, const Sink& sink);
  bool take_line(Connection& connection, std::string_view line, const Sink& sink);
  bool take_hello(Connection& connection, std::string_view line, const Sink& sink);
  std::string objection_to(const nlohmann::json& hello);
  void expire_silent();

  Options options_;
  UniqueFd listener_;
  UniqueFd epoll_;
  std::string address_;
  int generation_ = 0;
  std::size_t connections_max_;
  std::uint64_t accepted_ = 0;
  std::map<int, Connection> connections_;  // by descriptor
  Counters counters_;
};

// A numeric address of this machine from which all these hosts can be reached, for publishing: the loopback
// address if they are all this machine, else that of `interface` if given, else the one that routes to the
// first other host. kUnavailable, saying what to do, if there is none.
Result<std::string> event_address_for(const std::vector<std::string>& hosts, const std::string& interface);

}  // namespace muster
