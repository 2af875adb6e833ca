#include "trainer/comm/collective_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "trainer/comm/backoff.h"
#include "trainer/comm/broadcast.h"
#include "trainer/comm/ring.h"
#include "trainer/comm/shard_tree.h"

namespace muster::comm {
namespace {

class HeapBucket : public BucketMemory {
 public:
  explicit HeapBucket(std::size_t bytes) : memory_(bytes) {
    if (bytes > 0) std::memset(memory_.data(), 0, bytes);
  }
  std::span<std::byte> bytes() override { return memory_.span(); }

 private:
  AlignedBuffer memory_;
};

class FailedWork : public Work {
 public:
  explicit FailedWork(Error error) : error_(std::move(error)) {}
  bool test() override { return true; }
  Status wait() override { return tl::unexpected<Error>(error_); }

 private:
  Error error_;
};

}  // namespace

class CollectiveCommunicator::OperationWork : public Work {
 public:
  OperationWork(CollectiveCommunicator& communicator, std::shared_ptr<Operation> operation)
      : communicator_(communicator), operation_(std::move(operation)) {}

  bool test() override {
    if (!operation_->done()) communicator_.advance();
    return operation_->done();
  }
  Status wait() override {
    Backoff backoff;
    while (!operation_->done()) backoff.pause(communicator_.advance());
    return operation_->result();
  }

 private:
  CollectiveCommunicator& communicator_;
  std::shared_ptr<Operation> operation_;
};

CollectiveCommunicator::CollectiveCommunicator(std::unique_ptr<Transport> transport,
                                               std::unique_ptr<Liveness> liveness,
                                               const CommunicatorOptions& options)
    : options_(options),
      reduction_(make_reduction(options.algorithm)),
      transport_(std::move(transport)),
      liveness_(std::move(liveness)),
      name_(fmt::format("{}/{}", reduction_->name(), transport_->name())),
      last_judged_(Clock::now()) {}

CollectiveCommunicator::~CollectiveCommunicator() {
  if (!broken_ && !pending_.empty())
    abort(fmt::format("dropped its communicator during {}", describe(pending_.front()->header())));
  liveness_->leave();
}

Result<std::unique_ptr<BucketMemory>> CollectiveCommunicator::allocate_bucket(std::size_t bytes) {
  try {
    return std::make_unique<HeapBucket>(bytes);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kUnavailable, "no memory for a bucket of {} bytes", bytes);
  }
}

std::unique_ptr<Work> CollectiveCommunicator::all_reduce(void* data, std::size_t count, DType dtype,
                                                         const CollectiveOptions& options) {
  return start(header_for(Collective::kAllReduce, count, dtype, options),
               reduction_->all_reduce(shape_of(count, dtype)), data, {static_cast<const std::byte*>(data)},
               options);
}

std::unique_ptr<Work> CollectiveCommunicator::all_reduce_shards(std::span<const ShardPartial> partials,
                                                                int num_shards, void* out, std::size_t count,
                                                                DType dtype,
                                                                const CollectiveOptions& options) {
  if (Status checked = check_partials(partials, rank(), size(), num_shards, count); !checked)
    return refuse(std::move(checked).error());
  MessageHeader header = header_for(Collective::kAllReduceShards, count, dtype, options);
  header.num_shards = num_shards;
  std::vector<const std::byte*> inputs;
  for (const ShardPartial& partial : partials) inputs.push_back(static_cast<const std::byte*>(partial.data));
  return start(header, reduction_->all_reduce_shards(shape_of(count, dtype), num_shards), out,
               std::move(inputs), options);
}

std::unique_ptr<Work> CollectiveCommunicator::reduce_scatter(void* data, std::size_t count, DType dtype,
                                                             const CollectiveOptions& options) {
  return start(header_for(Collective::kReduceScatter, count, dtype, options),
               plan_ring_reduce_scatter(shape_of(count, dtype)), data, {}, options);
}

std::unique_ptr<Work> CollectiveCommunicator::all_gather(void* data, std::size_t count, DType dtype,
                                                         const CollectiveOptions& options) {
  return start(header_for(Collective::kAllGather, count, dtype, options),
               plan_ring_all_gather(shape_of(count, dtype)), data, {}, options);
}

std::unique_ptr<Work> CollectiveCommunicator::broadcast(void* data, std::size_t count, DType dtype, int root,
                                                        const CollectiveOptions& options) {
  if (root < 0 || root >= size())
    return refuse(
        {ErrorCode::kInvalidArgument,
         fmt::format("rank {}: broadcast from rank {}, but ranks are 0 … {}", rank(), root, size() - 1)});
  MessageHeader header = header_for(Collective::kBroadcast, count, dtype, options);
  header.root = root;
  return start(header, plan_broadcast(shape_of(count, dtype), root), data, {}, options);
}

std::unique_ptr<Work> CollectiveCommunicator::barrier(const CollectiveOptions& options) {
  return start(header_for(Collective::kBarrier, 0, DType::kByte, options),
               ScheduleBuilder(shape_of(0, DType::kByte)).finish(), nullptr, {}, options);
}

void CollectiveCommunicator::abort(std::string_view reason) {
  liveness_->report({{ErrorCode::kAborted, fmt::format("rank {} gave up: {}", rank(), reason)}, rank()});
}

std::optional<int> CollectiveCommunicator::fault_rank() const {
  const std::optional<Fault> fault = liveness_->fault();
  return fault ? fault->blamed_rank : std::nullopt;
}

MessageHeader CollectiveCommunicator::header_for(Collective collective, std::size_t count, DType dtype,
                                                 const CollectiveOptions& options) const {
  MessageHeader header;
  header.collective = collective;
  header.dtype = dtype;
  header.generation = options_.generation;
  header.bucket = options.bucket;
  header.step = options.step;
  header.count = count;
  header.sequence = started_;
  header.algorithm = static_cast<std::uint32_t>(options_.algorithm);
  return header;
}

Shape CollectiveCommunicator::shape_of(std::size_t count, DType dtype) const {
  const std::size_t element_bytes = size_of(dtype);
  // No longer than the data, so that scratch for small collectives is small.
  const std::size_t longest = std::max<std::size_t>(options_.segment_bytes / element_bytes, 1);
  return {rank(), size(), count, element_bytes, std::clamp<std::size_t>(count, 1, longest)};
}

std::unique_ptr<Work> CollectiveCommunicator::start(MessageHeader header, Schedule schedule, void* output,
                                                    std::vector<const std::byte*> inputs,
                                                    const CollectiveOptions& options) {
  if (const std::optional<Fault> fault = liveness_->fault()) break_with(*fault);
  if (broken_) return refuse(*broken_);
  if (header.count > 0 && output == nullptr)
    return refuse({ErrorCode::kInvalidArgument, fmt::format("rank {}: {} got no memory for {} elements",
                                                            rank(), describe(header), header.count)});
  if (options.stream != nullptr)
    return refuse({ErrorCode::kUnavailable,
                   fmt::format("rank {}: {} on an accelerator's stream; {} works on host memory only", rank(),
                               describe(header), name_)});
  ++started_;
  liveness_->set_progress(started_);
  Operation::Buffers buffers{static_cast<std::byte*>(output), std::move(inputs),
                             take_scratch(schedule.scratch_bytes)};
  auto operation = std::make_shared<Operation>(*transport_, std::move(schedule), header, std::move(buffers),
                                               Deadline::after(options.timeout));
  pending_.push_back(operation);
  advance();
  return std::make_unique<OperationWork>(*this, std::move(operation));
}

// What is wrong on one rank ends the operation on all.
std::unique_ptr<Work> CollectiveCommunicator::refuse(Error error) {
  break_with({std::move(error), rank()});
  return std::make_unique<FailedWork>(*broken_);
}

bool CollectiveCommunicator::advance() {
  if (broken_) return false;
  bool moved = false;
  for (const auto& operation : pending_) {
    const Result<bool> progress = operation->progress();
    if (!progress) {
      break_with({progress.error(), operation->failed_peer()});
      return true;
    }
    moved = moved || *progress;
  }
  retire_finished();
  if (const std::optional<Fault> fault = liveness_->fault()) {
    break_with(*fault);
    return true;
  }
  if (!moved) judge_waits();
  return moved;
}

void CollectiveCommunicator::retire_finished() {
  std::erase_if(pending_, [this](const std::shared_ptr<Operation>& operation) {
    if (!operation->done()) return false;
    if (AlignedBuffer scratch = operation->take_scratch(); scratch.size() > 0)
      spare_scratch_.push_back(std::move(scratch));
    return true;
  });
}

// Scratch is kept between collectives: fresh pages cost more than the sums.
AlignedBuffer CollectiveCommunicator::take_scratch(std::size_t bytes) {
  if (bytes == 0) return {};
  auto fits = spare_scratch_.end();
  for (auto spare = spare_scratch_.begin(); spare != spare_scratch_.end(); ++spare)
    if (spare->size() >= bytes && (fits == spare_scratch_.end() || spare->size() < fits->size()))
      fits = spare;
  if (fits == spare_scratch_.end()) {
    if (!spare_scratch_.empty()) spare_scratch_.pop_back();
    return AlignedBuffer(bytes);
  }
  AlignedBuffer scratch = std::move(*fits);
  spare_scratch_.erase(fits);
  return scratch;
}

void CollectiveCommunicator::judge_waits() {
  constexpr auto kResolution = std::chrono::milliseconds(1);
  const auto now = Clock::now();
  if (now - last_judged_ < kResolution) return;
  last_judged_ = now;
  for (const auto& operation : pending_) {
    if (const std::optional<Fault> fault = judge(*operation, now)) {
      break_with(*fault);
      return;
    }
  }
}

std::optional<Fault> CollectiveCommunicator::judge(const Operation& operation, Clock::time_point now) {
  if (operation.deadline().expired()) return deadline_fault(operation);
  for (const int peer : operation.awaited_peers()) {
    const auto left = liveness_->left_since(peer);
    if (!left || now - *left < options_.peer_timeout) continue;  // its last messages may be on their way
    return Fault{
        {ErrorCode::kPeerLost, fmt::format("{} has ended, but rank {} still waits for it in {}",
                                           liveness_->describe(peer), rank(), describe(operation.header()))},
        peer};
  }
  return std::nullopt;
}

Fault CollectiveCommunicator::deadline_fault(const Operation& operation) {
  std::vector<int> blamed;
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() && liveness_->progress_of(peer) <= operation.header().sequence) blamed.push_back(peer);
  const bool has_not_started = !blamed.empty();
  if (!has_not_started) blamed = operation.awaited_peers();
  std::string names;
  for (const int peer : blamed) names += (names.empty() ? "" : ", ") + liveness_->describe(peer);
  return {{ErrorCode::kDeadlineExceeded,
           fmt::format("{} did not end within its deadline on rank {}; waiting for {}{}",
                       describe(operation.header()), rank(), names,
                       has_not_started ? ", which (by the last heartbeat) has not begun it" : "")},
          blamed.size() == 1 ? std::optional<int>(blamed.front()) : std::nullopt};
}

void CollectiveCommunicator::break_with(const Fault& fault) {
  if (broken_) return;
  liveness_->report(fault);
  // If the group had a fault already, that one is the cause.
  const std::optional<Fault> first = liveness_->fault();
  broken_ = first ? first->error : fault.error;
  transport_->abandon();
  for (const auto& operation : pending_) operation->fail(*broken_);
  pending_.clear();
}

}  // namespace muster::comm
