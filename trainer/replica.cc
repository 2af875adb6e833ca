#include "trainer/replica.h"

#include <utility>

#include "trainer/nn/parameter.h"

namespace muster {
namespace {

constexpr std::int64_t kBucketBytesMax = std::int64_t{25} << 20;

}  // namespace

Result<Buckets> Buckets::allocate(comm::Communicator& communicator, const nn::BucketLayout& layout) {
  Buckets buckets;
  std::vector<void*> bases;
  for (std::size_t i = 0; i < layout.buckets(); ++i) {
    MUSTER_ASSIGN(auto memory, communicator.allocate_bucket(layout.bucket_bytes(i)));
    bases.push_back(memory->bytes().data());
    buckets.memory_.push_back(std::move(memory));
  }
  buckets.flat_ = nn::bucket_views(layout, bases);
  buckets.tensors_ = nn::parameter_views(layout, bases);
  return buckets;
}

Result<Replica> Replica::create(const TrainerOptions& options, const data::Dataset& data,
                                device::Device& device, comm::Communicator& communicator) {
  models::ModelConfig model;
  model.name = options.model;
  model.hidden = options.hidden;
  model.activation = options.activation;
  model.layer_norm = options.layer_norm;
  model.dropout = options.dropout;
  model.label_smoothing = options.label_smoothing;
  model.input_shape = data.sample_shape();
  model.classes = data.classes();
  optim::OptimizerConfig optimizer;
  optimizer.name = options.optimizer;
  optimizer.momentum = options.momentum;
  optimizer.weight_decay = options.weight_decay;
  optimizer.beta1 = options.beta1;
  optimizer.beta2 = options.beta2;
  optimizer.epsilon = options.epsilon;

  Replica replica;
  MUSTER_ASSIGN(replica.model_, models::make_model(model));
  replica.layout_ = nn::plan_buckets(replica.model_->parameters(), kBucketBytesMax);
  MUSTER_ASSIGN(replica.parameters_, Buckets::allocate(communicator, replica.layout_));
  MUSTER_ASSIGN(replica.gradients_, Buckets::allocate(communicator, replica.layout_));
  if (options.accumulation_steps > 1) {
    MUSTER_ASSIGN(replica.batch_gradients_, Buckets::allocate(communicator, replica.layout_));
  }
  MUSTER_ASSIGN(replica.optimizer_, optim::make_optimizer(optimizer, device, replica.layout_));
  nn::initialise_parameters(replica.model_->parameters(), options.seed, replica.parameters_.tensors());
  return replica;
}

std::vector<NamedTensor> Replica::saved_tensors() const {
  std::vector<NamedTensor> named;
  const auto add = [&](const std::string& name, const nn::Placement& placement,
                       const device::Tensor& bucket) {
    named.push_back({name, placement.shape, bucket.as<float>() + placement.offset});
  };
  for (const nn::Placement& placement : layout_.placements) {
    add("parameters/" + placement.name, placement, parameters_.flat()[placement.bucket]);
    for (std::size_t i = 0; i < optimizer_->state_names().size(); ++i) {
      add("optimizer/" + placement.name + "/" + optimizer_->state_names()[i], placement,
          optimizer_->state(i)[placement.bucket]);
    }
  }
  return named;
}

}  // namespace muster
