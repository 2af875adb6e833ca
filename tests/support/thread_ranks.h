// Ranks as threads of one process, with the rank-to-rank help that a checkpoint store needs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/status.h"
#include "trainer/checkpoint/checkpoint_store.h"

namespace muster::testing {

// A meeting place of `size` threads: each brings a text, all leave with all of them.
class TextExchange {
 public:
  explicit TextExchange(int size) : size_(size), incoming_(static_cast<std::size_t>(size)) {}

  Result<std::vector<std::string>> exchange(int rank, std::string_view mine) {
    std::unique_lock lock(mutex_);
    incoming_[static_cast<std::size_t>(rank)] = mine;
    const int round = round_;
    if (++arrived_ == size_) {
      // Nobody can overwrite `complete_` before all have read it: the next round needs everybody again.
      complete_ = incoming_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, std::chrono::minutes(1), [&] { return round_ != round; })) {
      return fail(ErrorCode::kDeadlineExceeded, "rank {} waited in vain for the others", rank);
    }
    return complete_;
  }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> incoming_;
  std::vector<std::string> complete_;
  int arrived_ = 0;
  int round_ = 0;
};

// Runs `body` as `size` ranks at once and returns what each returned, in rank order.
template <class Body>
auto on_ranks(int size, const Body& body)
    -> std::vector<decltype(body(std::declval<const checkpoint::Group&>()))> {
  TextExchange exchange(size);
  std::vector<decltype(body(std::declval<const checkpoint::Group&>()))> results(
      static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      checkpoint::Group group{
          rank, size, [&exchange, rank](std::string_view mine) { return exchange.exchange(rank, mine); }};
      results[static_cast<std::size_t>(rank)] = body(group);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace muster::testing
