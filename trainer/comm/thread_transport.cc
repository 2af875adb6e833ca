#include "trainer/comm/thread_transport.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

namespace muster::comm {
namespace {

struct Letter {
  int source;
  MessageHeader header;
  std::span<const std::byte> payload;  // the sender's buffer
  bool received = false;
};

// What was sent to one rank and not received yet. The lock also covers the copy, so a sender that gives up
// cannot free its buffer underneath the receiver.
struct Mailbox {
  std::mutex mutex;
  std::list<std::shared_ptr<Letter>> letters;
};

class Fabric : public ThreadFabric {
 public:
  explicit Fabric(int size) : boxes_(static_cast<std::size_t>(size)) {}
  int size() const override { return static_cast<int>(boxes_.size()); }
  Mailbox& box(int rank) { return boxes_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<Mailbox> boxes_;
};

class SendTransfer : public Transfer {
 public:
  SendTransfer(std::shared_ptr<Fabric> fabric, Mailbox& box, std::shared_ptr<Letter> letter)
      : fabric_(std::move(fabric)), box_(box), letter_(std::move(letter)) {
    const std::lock_guard lock(box_.mutex);
    box_.letters.push_back(letter_);
  }
  ~SendTransfer() override {
    const std::lock_guard lock(box_.mutex);
    if (!letter_->received) std::erase(box_.letters, letter_);
  }
  Result<bool> test() override {
    const std::lock_guard lock(box_.mutex);
    return letter_->received;
  }

 private:
  std::shared_ptr<Fabric> fabric_;  // keeps box_ alive
  Mailbox& box_;
  std::shared_ptr<Letter> letter_;
};

class ReceiveTransfer : public Transfer {
 public:
  ReceiveTransfer(std::shared_ptr<Fabric> fabric, int receiver, int source, const MessageHeader& expected,
                  std::span<std::byte> payload)
      : fabric_(std::move(fabric)),
        receiver_(receiver),
        source_(source),
        expected_(expected),
        payload_(payload) {}

  Result<bool> test() override {
    Mailbox& box = fabric_->box(receiver_);
    const std::lock_guard lock(box.mutex);
    const auto letter = std::find_if(box.letters.begin(), box.letters.end(), [this](const auto& candidate) {
      return candidate->source == source_ && candidate->header.sequence == expected_.sequence &&
             candidate->header.chunk == expected_.chunk;
    });
    if (letter == box.letters.end()) return false;
    MUSTER_TRY(check_header(expected_, (*letter)->header, receiver_, source_));
    if (!payload_.empty()) std::memcpy(payload_.data(), (*letter)->payload.data(), payload_.size());
    (*letter)->received = true;
    box.letters.erase(letter);
    return true;
  }

 private:
  std::shared_ptr<Fabric> fabric_;
  int receiver_;
  int source_;
  MessageHeader expected_;
  std::span<std::byte> payload_;
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Fabric> fabric, int rank) : fabric_(std::move(fabric)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return fabric_->size(); }
  std::string_view name() const override { return "threads"; }
  void abandon() override {}

  Result<std::unique_ptr<Transfer>> post_send(int destination, const MessageHeader& header,
                                              std::span<const std::byte> payload) override {
    auto letter = std::make_shared<Letter>(Letter{rank_, header, payload});
    return std::make_unique<SendTransfer>(fabric_, fabric_->box(destination), std::move(letter));
  }
  Result<std::unique_ptr<Transfer>> post_receive(int source, const MessageHeader& expected,
                                                 std::span<std::byte> payload) override {
    return std::make_unique<ReceiveTransfer>(fabric_, rank_, source, expected, payload);
  }

 private:
  std::shared_ptr<Fabric> fabric_;
  int rank_;
};

}  // namespace

std::shared_ptr<ThreadFabric> ThreadFabric::create(int size) { return std::make_shared<Fabric>(size); }

std::unique_ptr<Transport> make_thread_transport(std::shared_ptr<ThreadFabric> fabric, int rank) {
  return std::make_unique<ThreadTransport>(std::static_pointer_cast<Fabric>(std::move(fabric)), rank);
}

}  // namespace muster::comm
