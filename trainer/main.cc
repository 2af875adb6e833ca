// muster-train: one rank of a training job. This file names the concrete parts of training and dispatches the
// other commands.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/event_channel.h"
#include "common/file_ops.h"
#include "common/run_contract.h"
#include "common/signal_names.h"
#include "common/version.h"
#include "trainer/checkpoint/hdf5_store.h"
#include "trainer/code_identity.h"
#include "trainer/commands/commands.h"
#include "trainer/data/dataset.h"
#include "trainer/option_names.h"
#include "trainer/options.h"
#include "trainer/rank.h"
#include "trainer/standard_output.h"
#include "trainer/train_loop.h"

namespace {

using namespace std::chrono_literals;
using muster::ErrorCode;
using muster::fail;
using muster::Rank;
using muster::Result;
using muster::Status;
namespace contract = muster::contract;

// Set by the handler, read by the train loop: all ranks agree on a step to stop at, save, and leave.
std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

extern "C" void remember_stop(int signal) { stop_signal.store(signal); }

Status install_stop_handlers() {
  const char* name = std::getenv(contract::kStopSignal);
  int configured = SIGUSR1;
  if (name != nullptr) {
    MUSTER_ASSIGN(configured, muster::parse_signal_name(name));
  }
  struct sigaction action {};
  action.sa_handler = remember_stop;
  action.sa_flags = SA_RESTART;
  for (const int signal : {configured, SIGTERM}) {
    if (::sigaction(signal, &action, nullptr) != 0) {
      return fail(ErrorCode::kInvalidArgument, "{} is {}, which cannot be handled", contract::kStopSignal,
                  name);
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
  return {};
}

Result<std::int32_t> attempt_from_environment() {
  const char* text = std::getenv(contract::kAttempt);
  if (text == nullptr) return 1;
  char* end = nullptr;
  const long attempt = std::strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || attempt < 1 || attempt > 1'000'000'000) {
    return fail(ErrorCode::kInvalidArgument, "{} is '{}'; allowed: a whole number from 1", contract::kAttempt,
                text);
  }
  return static_cast<std::int32_t>(attempt);
}

Status connect_events(Rank& rank) {
  MUSTER_ASSIGN(rank.channel, muster::connect_from_environment(rank.session->rank(), rank.session->size(),
                                                               "muster-train", muster::Deadline::after(30s)));
  if (rank.channel) {
    rank.channel->on_request([&requested = rank.requested_saves](const nlohmann::json& request) {
      if (request.value("event", "") == contract::event::kSave) requested.add(request.value("request", ""));
    });
  }
  std::vector<muster::EventSink*> sinks;
  if (rank.channel) sinks.push_back(rank.channel.get());
  if (rank.session->rank() == 0) sinks.push_back(&rank.console);
  rank.events = std::make_unique<muster::TeeSink>(std::move(sinks));
  return {};
}

Status open_store(Rank& rank, const muster::TrainerOptions& options) {
  if (options.checkpoint_dir.empty()) return {};
  std::error_code ignored;
  if (std::filesystem::exists(options.checkpoint_dir, ignored) &&
      !std::filesystem::is_directory(options.checkpoint_dir, ignored)) {
    return fail(ErrorCode::kInvalidArgument,
                "{} {} is a file; allowed: a directory, which is made if it is not there",
                muster::option_name("--checkpoint-dir", "the checkpoint directory"), options.checkpoint_dir);
  }
  muster::checkpoint::Hdf5StoreOptions store;
  store.directory = options.checkpoint_dir;
  store.retention.keep_last = options.keep_last;
  store.retention.keep_best = options.keep_best;
  store.generation = rank.communicator->generation();
  store.code = muster::code_identity(*rank.device).dump();
  muster::checkpoint::Group group;
  group.rank = rank.communicator->rank();
  group.size = rank.communicator->size();
  group.all_gather_text = [communicator = rank.communicator.get(), timeout = options.collective_timeout](
                              std::string_view mine) -> Result<std::vector<std::string>> {
    muster::comm::CollectiveOptions collective;
    collective.bucket = -4;
    collective.timeout = timeout;
    return muster::comm::all_gather_text(*communicator, mine, collective);
  };
  MUSTER_ASSIGN(rank.store, muster::checkpoint::open_hdf5_store(store, std::move(group)));
  return {};
}

Result<muster::TrainOutcome> start_and_train(Rank& rank, const muster::TrainerOptions& options) {
  MUSTER_ASSIGN(const std::int32_t generation, attempt_from_environment());
  MUSTER_TRY(install_stop_handlers());
  MUSTER_ASSIGN(rank.session, muster::MpiSession::start({}));
  MUSTER_TRY(connect_events(rank));
  MUSTER_ASSIGN(rank.device, muster::device::make_device(options.device, options.threads));
  MUSTER_TRY(muster::make_communicator(rank, options, generation));
  MUSTER_TRY(open_store(rank, options));
  return muster::train(options,
                       {*rank.communicator, *rank.device,
                        [&] { return muster::data::load_datasets(options.dataset, options.data_path); },
                        rank.store.get(), *rank.events, stop_signal, rank.requested_saves});
}

int leave_in_order(Rank& rank, const muster::TrainOutcome& outcome) {
  if (rank.rank() == 0) {
    nlohmann::json result = nlohmann::json::object();
    if (outcome.loss) result["loss"] = *outcome.loss;
    if (outcome.accuracy) result["accuracy"] = *outcome.accuracy;
    if (!outcome.early_stop.empty()) result["early_stop"] = outcome.early_stop;
    rank.events->emit({{"event", contract::event::kFinished}, {"step", outcome.step}, {"result", result}});
  }
  muster::flush_events(rank);
  if (const Status finished = muster::finish(rank); !finished)
    muster::leave_after_fault(rank, finished.error());
  return outcome.stopped ? contract::kExitRequeue : contract::kExitDone;
}

std::string answer_of(muster::OptionsOutcome what, const muster::TrainerOptions& options) {
  switch (what) {
    case muster::OptionsOutcome::kShowHelp:
      return muster::trainer_help();
    case muster::OptionsOutcome::kShowVersion:
      return fmt::format("muster-train {} (protocol {})\n", muster::kVersion, contract::kProtocolVersion);
    case muster::OptionsOutcome::kListDevices:
      return fmt::format("{}\n", fmt::join(muster::device::list_devices(), "\n"));
    default:
      return muster::to_json(options).dump(2) + "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "eval") return muster::commands::evaluate(argc - 1, argv + 1);
  if (command == "export") return muster::commands::export_parameters(argc - 1, argv + 1);
  const auto parsed = muster::parse_trainer_options(argc, argv);
  if (!parsed) {
    fmt::print(stderr, "muster-train: {}\n", parsed.error().message);
    return contract::kExitDoNotRetry;
  }
  if (parsed->outcome != muster::OptionsOutcome::kRun) {
    return muster::print_result(answer_of(parsed->outcome, parsed->options));
  }
  Rank rank;
  const Result<muster::TrainOutcome> outcome = start_and_train(rank, parsed->options);
  if (!outcome) muster::leave_after_fault(rank, outcome.error());
  return leave_in_order(rank, *outcome);
}
