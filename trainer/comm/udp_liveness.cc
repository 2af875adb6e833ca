#include "trainer/comm/udp_liveness.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "trainer/comm/heartbeat.h"
#include "trainer/comm/peer_table.h"

namespace muster::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class UdpLiveness : public Liveness {
 public:
  UdpLiveness(UdpSocket socket, UdpGroup group, int wake)
      : socket_(std::move(socket)),
        group_(std::move(group)),
        wake_(wake),
        interval_(std::clamp(group_.peer_timeout / 8, milliseconds(10), milliseconds(500))),
        peers_(group_.rank, group_.hosts, group_.peer_timeout, Clock::now()),
        thread_([this] { run(); }) {}

  ~UdpLiveness() override {
    stop_.store(true);
    const std::uint64_t one = 1;
    // The counter of an eventfd takes it, or is full and wakes the thread anyway.
    [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof(one));
    thread_.join();
    ::close(wake_);
  }

  std::optional<Fault> fault() override { return fault_.get(); }

  void report(Fault fault) override {
    // Sent from here as well as by the thread: the caller may be about to end the process.
    if (fault_.set(std::move(fault))) broadcast(false);
  }

  void leave() override {
    if (left_.exchange(true)) return;
    // Datagrams may get lost; a lost goodbye would look like a crash.
    for (int i = 0; i < kGoodbyes; ++i) broadcast(true);
  }

  std::optional<Clock::time_point> left_since(int rank) override {
    const std::lock_guard lock(mutex_);
    return peers_.left_since(rank);
  }

  void set_progress(std::uint64_t collectives_started) override { progress_.store(collectives_started); }

  std::uint64_t progress_of(int rank) override {
    const std::lock_guard lock(mutex_);
    return peers_.progress_of(rank);
  }

  std::string describe(int rank) const override {
    return describe_rank(rank, group_.hosts[static_cast<std::size_t>(rank)]);
  }

 private:
  static constexpr int kGoodbyes = 3;

  void run() {
    // Signals are the program's business: none may land on this thread.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    auto next_beat = Clock::now();
    while (!stop_.load()) {
      if (Clock::now() >= next_beat) {
        if (!left_.load()) broadcast(false);
        next_beat = Clock::now() + interval_;
      }
      wait_until(next_beat);
      note_arrivals();
      judge();
    }
  }

  void wait_until(Clock::time_point next_beat) {
    const auto left = std::chrono::ceil<milliseconds>(next_beat - Clock::now());
    std::array<pollfd, 2> ready{{{socket_.descriptor(), POLLIN, 0}, {wake_, POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  }

  void note_arrivals() {
    std::array<std::byte, Heartbeat::kBytesMax + 1> buffer;  // one more, so that longer ones are seen as such
    while (const auto length = socket_.receive(buffer)) {
      const auto heartbeat = decode_heartbeat(std::span(buffer).first(*length));
      if (heartbeat && is_of_this_group(*heartbeat)) note(*heartbeat);
    }
    socket_.take_refusals([this](const UdpAddress& address) {
      const auto found = std::find(group_.addresses.begin(), group_.addresses.end(), address);
      if (found == group_.addresses.end()) return;
      const std::lock_guard lock(mutex_);
      peers_.refused(static_cast<int>(found - group_.addresses.begin()));
    });
  }

  bool is_of_this_group(const Heartbeat& heartbeat) const {
    return heartbeat.nonce == group_.nonce && heartbeat.generation == group_.generation &&
           heartbeat.rank >= 0 && heartbeat.rank < static_cast<int>(group_.addresses.size()) &&
           heartbeat.rank != group_.rank;
  }

  void note(const Heartbeat& heartbeat) {
    {
      const std::lock_guard lock(mutex_);
      peers_.heard(heartbeat.rank, heartbeat.progress, Clock::now());
      if (heartbeat.leaving) peers_.said_goodbye(heartbeat.rank, Clock::now());
    }
    if (heartbeat.fault && fault_.set(*heartbeat.fault)) broadcast(false);
  }

  void judge() {
    std::optional<Fault> lost;
    {
      const std::lock_guard lock(mutex_);
      lost = peers_.judge(Clock::now());
    }
    // Once this rank has left, or the group has failed, the others end as they like.
    if (lost && !left_.load()) report(*std::move(lost));
  }

  // To every peer that has not left.
  void broadcast(bool leaving) {
    Heartbeat heartbeat;
    heartbeat.nonce = group_.nonce;
    heartbeat.generation = group_.generation;
    heartbeat.rank = group_.rank;
    heartbeat.leaving = leaving;
    heartbeat.progress = progress_.load();
    heartbeat.fault = fault_.get();
    std::array<std::byte, Heartbeat::kBytesMax> bytes;
    const std::size_t length = encode_heartbeat(heartbeat, bytes);
    for (int rank = 0; rank < static_cast<int>(group_.addresses.size()); ++rank) {
      if (rank == group_.rank || left_since(rank)) continue;
      socket_.send(std::span(bytes).first(length), group_.addresses[static_cast<std::size_t>(rank)]);
    }
  }

  const UdpSocket socket_;
  const UdpGroup group_;
  const int wake_;  // eventfd
  const milliseconds interval_;
  FirstFault fault_;
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<bool> left_{false};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  PeerTable peers_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

Result<std::unique_ptr<Liveness>> make_udp_liveness(UdpSocket socket, UdpGroup group) {
  constexpr milliseconds kShortest{100};
  if (group.peer_timeout < kShortest)
    return fail(ErrorCode::kInvalidArgument, "a peer timeout of {} ms is too short; at least {} ms",
                group.peer_timeout.count(), kShortest.count());
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return fail(ErrorCode::kIo, "cannot make an eventfd: {}", std::strerror(errno));
  return std::make_unique<UdpLiveness>(std::move(socket), std::move(group), wake);
}

}  // namespace muster::comm
