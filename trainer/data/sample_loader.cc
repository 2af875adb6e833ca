#include "trainer/data/sample_loader.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <utility>

namespace muster::data {
namespace {

constexpr std::chrono::seconds kJoinPatience{1};

std::string describe(const SampleRequest& request) {
  return fmt::format("the {} samples of step {}, batch {}, shard {}", request.ids.size(), request.step,
                     request.batch, request.shard);
}

std::size_t elements_of(const Dataset& dataset) {
  const auto& shape = dataset.sample_shape();
  return static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

}  // namespace

// What the thread and the consumer have in common; outlives whoever leaves first.
struct SampleLoader::Shared {
  std::shared_ptr<const Dataset> dataset;
  SampleOrder order;  // the thread's alone
  std::int64_t ahead_max = 0;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::deque<Samples> ready;
  std::vector<Samples> spare;  // used up: their memory is used again
  std::int64_t asked = 0;      // calls of next()
  std::int64_t fetched = 0;
  std::string fetching;  // what the thread is at; empty between two fetches
  std::optional<Error> error;
  bool stopping = false;
  bool ended = false;  // the thread does nothing any more

  void run();

 private:
  // Waits for room, or for the end: false.
  bool begin_fetch(Samples& into);
  Status fetch(Samples& into);
  Status fetch_next(Samples& into);
};

bool SampleLoader::Shared::begin_fetch(Samples& into) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return stopping || fetched < asked + ahead_max; });
  if (stopping) return false;
  if (!spare.empty()) {
    into = std::move(spare.back());
    spare.pop_back();
  }
  return true;
}

Status SampleLoader::Shared::fetch(Samples& into) {
  std::optional<SampleRequest> request = order();
  if (!request) return fail(ErrorCode::kInternal, "was asked for more than there is");
  into.request = *std::move(request);
  {
    const std::lock_guard lock(mutex);
    fetching = describe(into.request);
  }
  const std::size_t samples = into.request.ids.size();
  into.inputs.resize(std::max<std::size_t>(samples * elements_of(*dataset), 1));
  into.labels.resize(std::max<std::size_t>(samples, 1));
  if (const Status got = dataset->fetch(into.request.ids, into.inputs.data(), into.labels.data()); !got) {
    return fail(got.error().code, "cannot read {}: {}", describe(into.request), got.error().message);
  }
  return {};
}

Status SampleLoader::Shared::fetch_next(Samples& into) {
  try {
    return fetch(into);
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kInternal, "died at {}: {}", describe(into.request), thrown.what());
  }
}

void SampleLoader::Shared::run() {
  for (Samples samples; begin_fetch(samples); samples = {}) {
    const Status got = fetch_next(samples);
    const std::lock_guard lock(mutex);
    ++fetched;
    fetching.clear();
    if (got) ready.push_back(std::move(samples));
    changed.notify_all();
    if (got) continue;
    error = got.error();
    break;
  }
  const std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

SampleLoader::SampleLoader(std::shared_ptr<const Dataset> dataset, SampleOrder order,
                           const SampleLoaderOptions& options)
    : shared_(std::make_shared<Shared>()), timeout_(options.timeout) {
  shared_->dataset = std::move(dataset);
  shared_->order = std::move(order);
  shared_->ahead_max = options.ahead_max;
  thread_ = std::thread([shared = shared_] {
    // Signals are the program's business: none may land on this thread.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    shared->run();
  });
}

SampleLoader::~SampleLoader() {
  bool ended = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->changed.notify_all();
    ended = shared_->changed.wait_for(lock, kJoinPatience, [this] { return shared_->ended; });
  }
  ended ? thread_.join() : thread_.detach();
}

const Dataset& SampleLoader::dataset() const { return *shared_->dataset; }

Result<Samples*> SampleLoader::next() {
  std::unique_lock lock(shared_->mutex);
  ++shared_->asked;
  if (current_.inputs.capacity() > 0) shared_->spare.push_back(std::move(current_));
  shared_->changed.notify_all();
  const bool in_time = shared_->changed.wait_for(
      lock, timeout_, [this] { return !shared_->ready.empty() || shared_->error.has_value(); });
  if (!shared_->ready.empty()) {
    current_ = std::move(shared_->ready.front());
    shared_->ready.pop_front();
    return &current_;
  }
  if (in_time) return tl::unexpected<Error>(*shared_->error);
  return fail(ErrorCode::kDeadlineExceeded, "stalled: {} did not come within {:.1f} s",
              shared_->fetching.empty() ? "the next samples" : shared_->fetching,
              std::chrono::duration<double>(timeout_).count());
}

}  // namespace muster::data
