#include "trainer/comm/thread_liveness.h"

#include <utility>
#include <vector>

namespace muster::comm {
namespace {

using Clock = std::chrono::steady_clock;

struct Member {
  std::optional<Clock::time_point> silent_since;
  std::optional<Clock::time_point> left_since;
  std::uint64_t progress = 0;
};

class Group : public ThreadLivenessGroup {
 public:
  Group(int size, std::chrono::milliseconds peer_timeout)
      : peer_timeout_(peer_timeout), members_(static_cast<std::size_t>(size)) {}

  void silence(int rank) override {
    const std::lock_guard lock(mutex_);
    member(rank).silent_since = Clock::now();
  }

  std::optional<Fault> fault_for(int rank) {
    const std::lock_guard lock(mutex_);
    if (member(rank).silent_since) return std::nullopt;
    const auto now = Clock::now();
    for (std::size_t other = 0; !fault_ && other < members_.size(); ++other) {
      const Member& peer = members_[other];
      if (!peer.silent_since || peer.left_since || now - *peer.silent_since < peer_timeout_) continue;
      const int lost = static_cast<int>(other);
      fault_ = Fault{
          {ErrorCode::kPeerLost, fmt::format("rank {} in this process gave no sign of life for {:.1f} s",
                                             lost, std::chrono::duration<double>(peer_timeout_).count())},
          lost};
    }
    return fault_;
  }

  void report(Fault fault) {
    const std::lock_guard lock(mutex_);
    if (!fault_) fault_ = std::move(fault);
  }

  // Runs a function on one member under the lock.
  template <class Function>
  auto with(int rank, Function function) {
    const std::lock_guard lock(mutex_);
    return function(member(rank));
  }

 private:
  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }

  const std::chrono::milliseconds peer_timeout_;
  std::mutex mutex_;
  std::vector<Member> members_;
  std::optional<Fault> fault_;
};

class ThreadLiveness : public Liveness {
 public:
  ThreadLiveness(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  std::optional<Fault> fault() override { return group_->fault_for(rank_); }
  void report(Fault fault) override { group_->report(std::move(fault)); }
  void leave() override {
    group_->with(rank_, [](Member& self) {
      if (!self.left_since) self.left_since = Clock::now();
    });
  }
  std::optional<Clock::time_point> left_since(int rank) override {
    return group_->with(rank, [](Member& peer) { return peer.left_since; });
  }
  void set_progress(std::uint64_t collectives_started) override {
    group_->with(rank_, [=](Member& self) { self.progress = collectives_started; });
  }
  std::uint64_t progress_of(int rank) override {
    return group_->with(rank, [](Member& peer) { return peer.progress; });
  }
  std::string describe(int rank) const override { return fmt::format("rank {} in this process", rank); }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace

std::shared_ptr<ThreadLivenessGroup> ThreadLivenessGroup::create(int size,
                                                                 std::chrono::milliseconds peer_timeout) {
  return std::make_shared<Group>(size, peer_timeout);
}

std::unique_ptr<Liveness> make_thread_liveness(std::shared_ptr<ThreadLivenessGroup> group, int rank) {
  return std::make_unique<ThreadLiveness>(std::static_pointer_cast<Group>(std::move(group)), rank);
}

}  // namespace muster::comm
