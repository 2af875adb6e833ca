// MPI's life in this process: started once, asserted to have the size that the launcher promised, and
// finished only on the clean path. Free of mpi.h, for main().
#pragma once

#include <chrono>
#include <memory>

#include "common/status.h"

namespace muster {

class MpiSession {
 public:
  struct Options {
    // MPI_Init and MPI_Finalize have no deadline: when one of these passes, the process ends with
    // contract::kExitRetry and a message.
    std::chrono::milliseconds init_timeout{120'000};
    std::chrono::milliseconds finish_timeout{30'000};
  };

  // Initialises MPI so that errors are returned, and any one thread at a time may call it. If the environment
  // (contract::kWorldSize, kRank) says otherwise than MPI, kMismatch: N silent singletons are impossible.
  // Then, as after every failure, leave by _exit.
  static Result<std::unique_ptr<MpiSession>> start(const Options& options);

  // Does not finalize: see finish().
  ~MpiSession() = default;
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // MPI_Finalize: waits for all ranks. Only when every communicator was dropped in good order; never after a
  // fault, when it could wait for the dead.
  Status finish();

 private:
  explicit MpiSession(const Options& options) : options_(options) {}

  Options options_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace muster
