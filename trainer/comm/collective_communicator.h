// The communicator: plans each collective (Reduction and the common planners), runs it as an Operation over a
// Transport, and lets the group's Liveness end every wait. "ring/mpi", "tree/threads", … are combinations of
// the three parts, not classes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/communicator_options.h"
#include "trainer/comm/liveness.h"
#include "trainer/comm/operation.h"
#include "trainer/comm/transport.h"

namespace muster::comm {

class CollectiveCommunicator final : public Communicator {
 public:
  CollectiveCommunicator(std::unique_ptr<Transport> transport, std::unique_ptr<Liveness> liveness,
                         const CommunicatorOptions& options);
  // With operations pending, the other ranks get kAborted; otherwise this rank leaves in good order.
  ~CollectiveCommunicator() override;

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  std::int32_t generation() const override { return options_.generation; }
  std::string_view name() const override { return name_; }

  Result<std::unique_ptr<BucketMemory>> allocate_bucket(std::size_t bytes) override;
  std::unique_ptr<Work> all_reduce(void* data, std::size_t count, DType dtype,
                                   const CollectiveOptions& options) override;
  std::unique_ptr<Work> all_reduce_shards(std::span<const ShardPartial> partials, int num_shards, void* out,
                                          std::size_t count, DType dtype,
                                          const CollectiveOptions& options) override;
  bool order_free() const override { return reduction_->order_free(); }
  std::unique_ptr<Work> reduce_scatter(void* data, std::size_t count, DType dtype,
                                       const CollectiveOptions& options) override;
  std::unique_ptr<Work> all_gather(void* data, std::size_t count, DType dtype,
                                   const CollectiveOptions& options) override;
  std::unique_ptr<Work> broadcast(void* data, std::size_t count, DType dtype, int root,
                                  const CollectiveOptions& options) override;
  std::unique_ptr<Work> barrier(const CollectiveOptions& options) override;
  void abort(std::string_view reason) override;
  std::optional<int> fault_rank() const override;

 private:
  class OperationWork;
  using Clock = std::chrono::steady_clock;

  MessageHeader header_for(Collective collective, std::size_t count, DType dtype,
                           const CollectiveOptions& options) const;
  Shape shape_of(std::size_t count, DType dtype) const;
  Status check_buffer(const MessageHeader& header, const void* data) const;
  std::unique_ptr<Work> start(MessageHeader header, Schedule schedule, void* output,
                              std::vector<const std::byte*> inputs, const CollectiveOptions& options);
  std::unique_ptr<Work> refuse(Error error);

  // One round of progress for everything pending; true if anything moved.
  bool advance();
  // Deadlines, and peers that have left while we wait for them.
  void judge_waits();
  std::optional<Fault> judge(const Operation& operation, Clock::time_point now);
  Fault deadline_fault(const Operation& operation);
  void break_with(const Fault& fault);
  void retire_finished();
  AlignedBuffer take_scratch(std::size_t bytes);

  CommunicatorOptions options_;
  std::unique_ptr<Reduction> reduction_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Liveness> liveness_;
  std::string name_;
  std::uint64_t started_ = 0;  // collectives, which is the next one's sequence number
  std::vector<std::shared_ptr<Operation>> pending_;
  std::vector<AlignedBuffer> spare_scratch_;
  std::optional<Error> broken_;
  Clock::time_point last_judged_;
};

}  // namespace muster::comm
