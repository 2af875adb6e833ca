#include <utility>

#include "trainer/comm/shard_tree.h"
#include "trainer/sync/gradient_sync.h"

namespace muster::sync {
namespace {

class AllreduceSync final : public GradientSync {
 public:
  AllreduceSync(comm::Communicator& communicator, const nn::BucketLayout& layout, int num_shards,
                std::chrono::milliseconds timeout)
      : communicator_(communicator),
        layout_(layout),
        num_shards_(num_shards),
        range_(comm::shard_range(communicator.rank(), communicator.size(), num_shards)),
        timeout_(timeout) {
    for (const std::int64_t elements : layout.bucket_elements) {
      accumulators_.emplace_back(static_cast<std::size_t>(elements));
    }
  }

  void begin_step(std::int64_t step) override {
    step_ = step;
    for (comm::ShardAccumulator& accumulator : accumulators_) accumulator.begin(range_);
  }

  ShardGradients next_shard() override {
    std::vector<void*> bases;
    for (comm::ShardAccumulator& accumulator : accumulators_) bases.push_back(accumulator.next());
    return {nn::bucket_views(layout_, bases), nn::parameter_views(layout_, bases)};
  }

  void add_shard() override {
    for (comm::ShardAccumulator& accumulator : accumulators_) accumulator.add();
  }

  Status finish_step(std::span<const device::Tensor> totals) override {
    std::vector<std::unique_ptr<comm::Work>> pending;
    pending.reserve(totals.size());
    for (std::size_t i = 0; i < totals.size(); ++i) {
      comm::CollectiveOptions options;
      options.step = step_;
      options.bucket = static_cast<std::int32_t>(i);
      options.timeout = timeout_;
      pending.push_back(communicator_.all_reduce_shards(
          accumulators_[i].partials(), num_shards_, totals[i].data,
          static_cast<std::size_t>(totals[i].elements()), comm::DType::kFloat32, options));
    }
    for (const auto& work : pending) MUSTER_TRY(work->wait());
    return {};
  }

 private:
  comm::Communicator& communicator_;
  nn::BucketLayout layout_;
  int num_shards_;
  comm::ShardRange range_;
  std::chrono::milliseconds timeout_;
  std::int64_t step_ = 0;
  std::vector<comm::ShardAccumulator> accumulators_;
};

}  // namespace

std::unique_ptr<GradientSync> make_allreduce_sync(comm::Communicator& communicator,
                                                  const nn::BucketLayout& layout, int num_shards,
                                                  std::chrono::milliseconds timeout) {
  return std::make_unique<AllreduceSync>(communicator, layout, num_shards, timeout);
}

}  // namespace muster::sync
