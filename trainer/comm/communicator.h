// SEAM: collectives between the ranks of one attempt, with deadlines.
//
// Handles are asynchronous: a call starts the operation, Work::wait() finishes it. Buffers belong to the
// caller and must stay untouched until wait() returned. All ranks call the same collectives in the same order
// with the same CollectiveOptions::id, dtype and count; if they do not, every rank gets kMismatch with a
// message that names the ranks that disagree, and nobody hangs. If a peer gives no sign of life (its own
// heartbeat, not the time it spends inside a collective), every rank gets kPeerLost naming it. After any
// failure the communicator is broken: drop it and leave without MPI_Finalize.
//
// Wrong arguments on one rank are everybody's error too.
//
// Threads: one thread drives a communicator; abort() and fault_rank() may be called from any thread.
// Operations make progress only inside test() and wait() (of any Work of this communicator). A communicator
// outlives its Works. After all_reduce, all ranks hold identical bits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster::comm {

enum class DType : std::uint8_t { kByte = 0, kFloat32 = 1, kFloat64 = 2 };

std::size_t size_of(DType dtype);

// An accelerator stream that orders the operation; null on the CPU.
using Stream = void*;

struct CollectiveOptions {
  std::int64_t step = 0;    // which optimizer step this belongs to
  std::int32_t bucket = 0;  // which bucket (or other object) of that step
  // Longest time for the whole operation, whatever the peers' heartbeats say.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  Stream stream = nullptr;
};

class Work {
 public:
  virtual ~Work() = default;
  // True once the operation has finished or failed; makes progress.
  virtual bool test() = 0;
  // Blocks until finished, failed, or past the operation's deadline.
  virtual Status wait() = 0;
};

// A partial sum over the virtual shards [index << level, (index + 1) << level).
struct ShardPartial {
  int level = 0;
  std::int64_t index = 0;
  const void* data = nullptr;  // count elements
};

// Memory for a flat bucket, owned by the communicator that allocated it.
class BucketMemory {
 public:
  virtual ~BucketMemory() = default;
  virtual std::span<std::byte> bytes() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::int32_t generation() const = 0;
  virtual std::string_view name() const = 0;  // "ring/mpi", "tree/threads", …

  // Zero-initialised, 64-byte aligned.
  virtual Result<std::unique_ptr<BucketMemory>> allocate_bucket(std::size_t bytes) = 0;

  // In-place sum over ranks; bytes add modulo 256.
  virtual std::unique_ptr<Work> all_reduce(void* data, std::size_t count, DType dtype,
                                           const CollectiveOptions& options) = 0;

  // Sum over virtual shards 0 … num_shards-1 (a power of two, at least size()). Each rank passes the partial
  // sums of its shards, which are exactly dyadic_blocks(shard_range(rank, size, num_shards)): shard_tree.h.
  // `out` gets the total on every rank; it may be the first partial's data, and otherwise overlaps none. The
  // partials' data, like `out`, stays until wait() returned. order_free() tells whether the result is the
  // same, bit for bit, for any number of ranks.
  virtual std::unique_ptr<Work> all_reduce_shards(std::span<const ShardPartial> partials, int num_shards,
                                                  void* out, std::size_t count, DType dtype,
                                                  const CollectiveOptions& options) = 0;
  virtual bool order_free() const = 0;

  // data: count elements on every rank. Rank r ends with the sum of elements [begin(r), begin(r+1)) in place,
  // begin(r) = count * r / size; the other elements are unspecified.
  virtual std::unique_ptr<Work> reduce_scatter(void* data, std::size_t count, DType dtype,
                                               const CollectiveOptions& options) = 0;

  // data: count elements. Rank r contributes [begin(r), begin(r+1)) in place; all end with everything.
  virtual std::unique_ptr<Work> all_gather(void* data, std::size_t count, DType dtype,
                                           const CollectiveOptions& options) = 0;

  virtual std::unique_ptr<Work> broadcast(void* data, std::size_t count, DType dtype, int root,
                                          const CollectiveOptions& options) = 0;

  virtual std::unique_ptr<Work> barrier(const CollectiveOptions& options) = 0;

  // Breaks the communicator on all ranks that can still be reached: every pending and later operation fails
  // with kAborted (or the more telling error it already had) and `reason`.
  // Never blocks.
  virtual void abort(std::string_view reason) = 0;

  // After a failure: the rank to blame, where one is known (the lost one, or one of those that disagree).
  virtual std::optional<int> fault_rank() const = 0;
};

// One text per rank, in rank order, on every rank. Collective.
Result<std::vector<std::string>> all_gather_text(Communicator& communicator, std::string_view mine,
                                                 const CollectiveOptions& options);

// The root's text on every rank. Collective.
Result<std::string> broadcast_text(Communicator& communicator, std::string_view text, int root,
                                   const CollectiveOptions& options);

}  // namespace muster::comm
