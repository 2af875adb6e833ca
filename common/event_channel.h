// The ranks' end of the event channel: one TCP connection to the supervisor, JSON lines.
//
// connect() sends the hello (contract::event::kHello) and waits for the supervisor's welcome, so a rank knows
// at once that it was refused (wrong key, another version, a stale generation) and why. After that the rank
// sends events, and the supervisor sends requests (contract::event::kSave). The connection doubles as a sign
// of life: when the supervisor is gone, connected() turns false and the disconnect callback runs, so that a
// trainer can fence itself instead of training on unsupervised.
//
// Threads: emit(), flush(), connected(), on_request() and on_disconnect() may be called from any thread. One
// thread of the channel's own, with every signal blocked, does the sending. Do not fork() and go on using the
// channel in the child; exec() is fine (the socket is close-on-exec).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "common/clock.h"
#include "common/event_sink.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace muster {

class EventChannel final : public EventSink {
 public:
  // The longest line, newline included, that either end accepts.
  static constexpr std::size_t kLineBytesMax = std::size_t{1} << 20;

  // `address` is tcp://ADDRESS:PORT with a numeric address ([…] around IPv6). `hello` holds at least "run",
  // "generation", "rank", "world_size" and "program"; "event", "protocol", "version", "node", "pid" and "key"
  // are filled in. kInvalidArgument for a bad address, kMismatch if the supervisor refused the hello,
  // kDeadlineExceeded, or kPeerLost if nobody answers there.
  static Result<std::unique_ptr<EventChannel>> connect(std::string_view address, std::string_view key,
                                                       nlohmann::json hello, Deadline deadline);

  // Gives what is queued a short while to leave, then closes.
  ~EventChannel() override;
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;

  // Adds "generation", "rank" and "node" and queues the line. If the queue is full, a step event is dropped
  // at once, any other after a short wait. A line beyond kLineBytesMax is dropped.
  void emit(const nlohmann::json& event) override;

  // Waits until all that was emitted before is in the kernel's hands, which delivers it even if this process
  // dies right after. Call it after "checkpoint", "fault" and "finished". kPeerLost if the supervisor is
  // gone, kDeadlineExceeded if it does not read.
  Status flush(Deadline deadline);

  bool connected() const;
  // Runs once, on the channel's thread, when the connection breaks (at once if it is broken already, on the
  // caller's thread). It must not destroy the channel. Not run by the destructor.
  void on_disconnect(std::function<void()> callback);

  // Runs on the channel's thread for each line that the supervisor sends; until it is set, they wait.
  void on_request(std::function<void(const nlohmann::json& request)> callback);

  std::uint64_t dropped() const;

 private:
  EventChannel(UniqueFd socket, UniqueFd wake, nlohmann::json stamp);
  void send_loop();
  bool send_some(std::string& line, std::size_t& sent);
  bool receive_some();
  void hand_out_requests();
  void disconnected();

  UniqueFd socket_;
  UniqueFd wake_;         // eventfd: there is work for the sender
  nlohmann::json stamp_;  // what every event gets: generation, rank, node
  mutable std::mutex mutex_;
  std::condition_variable progress_;  // a line was queued up to the kernel, or the connection broke
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  std::uint64_t emitted_ = 0;  // lines queued so far
  std::uint64_t sent_ = 0;     // of these, handed to the kernel
  std::uint64_t dropped_ = 0;
  bool connected_ = true;
  bool closing_ = false;
  std::function<void()> on_disconnect_;
  std::function<void(const nlohmann::json&)> on_request_;
  std::string received_;  // requests not handed out yet; the channel's thread only
  std::thread sender_;
};

// The channel named by the run contract's environment (MUSTER_EVENTS, MUSTER_RUN_ID, MUSTER_ATTEMPT, and the
// key in MUSTER_RUN_DIR). Null if MUSTER_EVENTS is absent: nobody listens, and that is fine.
Result<std::unique_ptr<EventChannel>> connect_from_environment(int rank, int world_size,
                                                               std::string_view program, Deadline deadline);

}  // namespace muster
