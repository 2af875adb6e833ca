#include "trainer/evaluation.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "trainer/agreement.h"
#include "trainer/data/dataset.h"
#include "trainer/device/device.h"
#include "trainer/options.h"
#include "trainer/replica.h"
#include "trainer/shard_runner.h"
#include "trainer/stored_parameters.h"

namespace muster {
namespace {

Result<TrainerOptions> stored_options(const checkpoint::FoundCheckpoint& stored) {
  const auto configuration = stored.manifest.state.find("configuration");
  if (configuration == stored.manifest.state.end()) {
    return fail(ErrorCode::kInvalidArgument,
                "{} holds no configuration; muster-train evaluates its own checkpoints",
                stored.path.string());
  }
  Result<TrainerOptions> options = trainer_options_from_json(*configuration);
  if (options) return options;
  return fail(options.error().code, "{}: {}", stored.path.string(), options.error().message);
}

// What has to be there before the ranks compute together.
struct Parts {
  TrainerOptions options;
  std::unique_ptr<device::Device> device;
  data::DatasetPair data;
  std::optional<Replica> replica;
};

Status prepare(Parts& parts, comm::Communicator& communicator, const checkpoint::FoundCheckpoint& stored,
               const std::string& data_path) {
  MUSTER_ASSIGN(parts.options, stored_options(stored));
  TrainerOptions& options = parts.options;
  if (!data_path.empty()) options.data_path = data_path;
  if (options.shards < communicator.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "the checkpoint has {} shards, too few for {} ranks; allowed: 1 to {} ranks", options.shards,
                communicator.size(), options.shards);
  }
  MUSTER_ASSIGN(parts.device, device::make_device(options.device, options.threads));
  MUSTER_ASSIGN(parts.data, data::load_datasets(options.dataset, options.data_path));
  MUSTER_ASSIGN(Replica replica, Replica::create(options, *parts.data.train, *parts.device, communicator));
  parts.replica.emplace(std::move(replica));
  return read_parameters(stored, parameters_of(parts.replica->saved_tensors()));
}

}  // namespace

Result<Evaluation> evaluate_checkpoint(comm::Communicator& communicator,
                                       const std::filesystem::path& checkpoint,
                                       const std::string& data_path) {
  const comm::CollectiveOptions collective;
  MUSTER_ASSIGN(const checkpoint::FoundCheckpoint stored,
                find_together(communicator, checkpoint, collective));
  Parts parts;
  MUSTER_TRY(agree(communicator, prepare(parts, communicator, stored, data_path), collective));
  MUSTER_TRY(require_equal(communicator, "the test data", parts.data.test->fingerprint(), collective));
  ShardRunner runner(communicator, *parts.device, *parts.replica,
                     {.num_shards = parts.options.shards,
                      .collective_timeout = parts.options.collective_timeout,
                      .prefetch_steps = parts.options.prefetch,
                      .data_timeout = parts.options.data_timeout});
  MUSTER_ASSIGN(const ShardTotals totals,
                runner.evaluate(parts.data.test, parts.options.batch_size, stored.manifest.step));
  return Evaluation{stored.path.string(),
                    stored.manifest.step,
                    parts.options.data_path,
                    static_cast<std::int64_t>(totals.samples),
                    totals.loss_sum / totals.samples,
                    totals.correct / totals.samples};
}

}  // namespace muster
