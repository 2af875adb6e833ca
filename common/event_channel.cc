#include "common/event_channel.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "common/file_ops.h"
#include "common/json_fields.h"
#include "common/run_contract.h"
#include "common/stream_socket.h"
#include "common/version.h"

namespace muster {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t kQueueBytesMax = std::size_t{8} << 20;
constexpr milliseconds kRoomWait{500};
constexpr milliseconds kCloseWait{2000};
constexpr std::string_view kPeer = "the supervisor";  // in messages
constexpr std::size_t kAnswerBytesMax = 4096;

// Wakes the sender, or does nothing if it is awake already (the eventfd's counter never fills up).
void wake(int eventfd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(eventfd, &one, sizeof one);
}

std::string node_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string to_line(const json& event) {
  return event.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<int> number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  int value = 0;
  const std::string_view view = text == nullptr ? "" : text;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (view.empty() || error != std::errc{} || end != view.data() + view.size()) {
    return fail(ErrorCode::kInvalidArgument, "{} is '{}'; expected a number (it is set by muster)", name,
                view);
  }
  return value;
}

}  // namespace

Result<std::unique_ptr<EventChannel>> EventChannel::connect(std::string_view address, std::string_view key,
                                                            json hello, Deadline deadline) {
  hello["event"] = contract::event::kHello;
  hello["protocol"] = contract::kProtocolVersion;
  hello["version"] = kVersion;
  hello["key"] = key;
  if (!hello.contains("node")) hello["node"] = node_name();
  if (!hello.contains("pid")) hello["pid"] = ::getpid();

  MUSTER_ASSIGN(UniqueFd socket, connect_to(address, kPeer, deadline));
  MUSTER_TRY(send_all(socket.get(), to_line(hello), kPeer, deadline));
  MUSTER_ASSIGN(const std::string answer_line, receive_line(socket.get(), kAnswerBytesMax, kPeer, deadline));
  const json answer = json::parse(answer_line, nullptr, false);
  if (text_field(answer, "event") != "welcome") {
    return fail(ErrorCode::kMismatch, "the supervisor at {} refused this process: {}", address,
                answer.is_object() ? text_field(answer, "reason") : answer_line);
  }
  UniqueFd wake_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd) return fail(ErrorCode::kIo, "eventfd: {}", errno_text(errno));
  const json stamp = {{"generation", hello.value("generation", 0)},
                      {"rank", hello.value("rank", -1)},
                      {"node", hello["node"]}};
  return std::unique_ptr<EventChannel>(new EventChannel(std::move(socket), std::move(wake_fd), stamp));
}

EventChannel::EventChannel(UniqueFd socket, UniqueFd wake_fd, json stamp)
    : socket_(std::move(socket)), wake_(std::move(wake_fd)), stamp_(std::move(stamp)) {
  // The process's signals are for its own threads; the sender inherits this mask.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  sender_ = std::thread([this] { send_loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

EventChannel::~EventChannel() {
  [[maybe_unused]] const Status flushed = flush(Deadline::after(kCloseWait));
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    on_disconnect_ = nullptr;
  }
  wake(wake_.get());
  sender_.join();
}

void EventChannel::emit(const json& event) {
  json stamped = event;
  stamped.update(stamp_);
  std::string line = to_line(stamped);
  const bool may_wait = event.value("event", "") != contract::event::kStep;
  {
    std::unique_lock lock(mutex_);
    const auto has_room = [&] { return !connected_ || queued_bytes_ + line.size() <= kQueueBytesMax; };
    if (may_wait) progress_.wait_for(lock, kRoomWait, has_room);
    if (!connected_ || !has_room() || line.size() > kLineBytesMax) {
      ++dropped_;
      return;
    }
    queued_bytes_ += line.size();
    queue_.push_back(std::move(line));
    ++emitted_;
  }
  wake(wake_.get());
}

Status EventChannel::flush(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const std::uint64_t target = emitted_;
  const bool done =
      progress_.wait_for(lock, deadline.remaining(), [&] { return sent_ >= target || !connected_; });
  if (sent_ >= target) return {};
  if (!done) return fail(ErrorCode::kDeadlineExceeded, "the supervisor does not read the event channel");
  return fail(ErrorCode::kPeerLost, "the supervisor is gone");
}

bool EventChannel::connected() const {
  const std::lock_guard lock(mutex_);
  return connected_;
}

void EventChannel::on_disconnect(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (connected_) {
      on_disconnect_ = std::move(callback);
      return;
    }
  }
  callback();
}

void EventChannel::on_request(std::function<void(const json& request)> callback) {
  {
    const std::lock_guard lock(mutex_);
    on_request_ = std::move(callback);
  }
  wake(wake_.get());
}

std::uint64_t EventChannel::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

// True while the connection lives. Sends as much of `line` as the kernel takes now.
bool EventChannel::send_some(std::string& line, std::size_t& sent) {
  while (sent < line.size()) {
    const ssize_t result = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (result < 0 && errno == EINTR) continue;
    if (result < 0) return errno == EAGAIN;
    sent += static_cast<std::size_t>(result);
  }
  {
    const std::lock_guard lock(mutex_);
    ++sent_;
  }
  progress_.notify_all();
  line.clear();
  sent = 0;
  return true;
}

// True while the connection lives.
bool EventChannel::receive_some() {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  received_.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0 && received_.size() <= kLineBytesMax;
}

void EventChannel::hand_out_requests() {
  std::function<void(const json&)> callback;
  {
    const std::lock_guard lock(mutex_);
    callback = on_request_;
  }
  if (!callback) return;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = received_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const json request = json::parse(received_.substr(begin, end - begin), nullptr, false);
    if (request.is_object()) callback(request);
  }
  received_.erase(0, begin);
}

void EventChannel::send_loop() {
  std::string line;  // the one being sent
  std::size_t sent = 0;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return;
      if (line.empty() && !queue_.empty()) {
        line = std::move(queue_.front());
        queue_.pop_front();
        queued_bytes_ -= line.size();
      }
    }
    if (!line.empty()) {
      if (!send_some(line, sent)) return disconnected();
      if (line.empty()) continue;  // look for the next one
    }
    const auto socket_events = static_cast<short>(line.empty() ? POLLIN : POLLIN | POLLOUT);
    std::array<pollfd, 2> entries{pollfd{socket_.get(), socket_events, 0}, pollfd{wake_.get(), POLLIN, 0}};
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    std::uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t drained = ::read(wake_.get(), &wakes, sizeof wakes);
    if ((entries[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !receive_some()) return disconnected();
    hand_out_requests();
  }
}

void EventChannel::disconnected() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    connected_ = false;
    callback = std::exchange(on_disconnect_, nullptr);
  }
  progress_.notify_all();
  if (callback) callback();
}

Result<std::unique_ptr<EventChannel>> connect_from_environment(int rank, int world_size,
                                                               std::string_view program, Deadline deadline) {
  const char* address = std::getenv(contract::kEvents);
  if (address == nullptr) return std::unique_ptr<EventChannel>();
  const char* run_id = std::getenv(contract::kRunId);
  const char* run_directory = std::getenv(contract::kRunDir);
  if (run_id == nullptr || run_directory == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "{} is set but {} or {} is not", contract::kEvents,
                contract::kRunId, contract::kRunDir);
  }
  MUSTER_ASSIGN(const int generation, number_from_environment(contract::kAttempt));
  MUSTER_ASSIGN(std::string key,
                read_text_file(std::filesystem::path(run_directory) / contract::kChannelKeyFile));
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  return EventChannel::connect(address, key,
                               {{"run", run_id},
                                {"generation", generation},
                                {"rank", rank},
                                {"world_size", world_size},
                                {"program", program}},
                               deadline);
}

}  // namespace muster
