// Fetches samples in a thread of its own, a bounded number of requests ahead of the computation. What comes
// out depends on the order alone, not on how far ahead the thread is.
//
// A fetch that fails or throws, and one that does not end in time, is an error of next(): nobody waits for a
// dead loader. Threads: one consumer.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "common/status.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sample_order.h"

namespace muster::data {

struct Samples {
  SampleRequest request;
  // One sample after the other. Never empty, so that their data can be a tensor's even without samples.
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
};

struct SampleLoaderOptions {
  std::int64_t ahead_max = 2;  // requests fetched before anybody asks for them; 0: only what is asked for
  std::chrono::milliseconds timeout{60'000};  // the longest wait in next()
};

class SampleLoader {
 public:
  SampleLoader(std::shared_ptr<const Dataset> dataset, SampleOrder order, const SampleLoaderOptions& options);
  // Ends the thread. One that does not come back from a fetch within a second is left behind: it owns all
  // that it uses, so a stuck read cannot hold up the end of the process.
  ~SampleLoader();
  SampleLoader(const SampleLoader&) = delete;
  SampleLoader& operator=(const SampleLoader&) = delete;

  // The next samples of the order, valid until the next call. Messages continue a sentence that begins with
  // "the data loader": kDeadlineExceeded if it stalls, the dataset's own code if a fetch fails, kInternal if
  // it throws, or at the end of the order. After an error the loader is broken.
  Result<Samples*> next();
  const Dataset& dataset() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::chrono::milliseconds timeout_;
  Samples current_;
  std::thread thread_;
};

}  // namespace muster::data
