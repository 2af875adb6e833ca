#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/run_contract.h"
#include "trainer/commands/command_line.h"
#include "trainer/commands/commands.h"
#include "trainer/evaluation.h"
#include "trainer/rank.h"

namespace muster::commands {
namespace {

namespace po = boost::program_options;

void show(const Evaluation& evaluation, bool as_json) {
  if (as_json) {
    const nlohmann::json json = {
        {"checkpoint", evaluation.checkpoint}, {"step", evaluation.step}, {"data_path", evaluation.data_path},
        {"samples", evaluation.samples},       {"loss", evaluation.loss}, {"accuracy", evaluation.accuracy}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("checkpoint  {} (step {})\n", evaluation.checkpoint, evaluation.step);
  fmt::print("data        {} ({} samples)\n", evaluation.data_path, evaluation.samples);
  fmt::print("loss        {:.6g}\n", evaluation.loss);
  fmt::print("accuracy    {:.6g}\n", evaluation.accuracy);
}

Result<Evaluation> run(Rank& rank, const std::string& checkpoint, const std::string& data_path) {
  MUSTER_ASSIGN(rank.session, MpiSession::start({}));
  MUSTER_TRY(make_communicator(rank, TrainerOptions(), 1));
  return evaluate_checkpoint(*rank.communicator, checkpoint, data_path);
}

}  // namespace

int evaluate(int argc, const char* const* argv) {
  po::options_description flags("Options");
  flags.add_options()                                                                          //
      ("data-path", po::value<std::string>()->default_value(""), "other data than the run's")  //
      ("json", po::bool_switch(), "one JSON object instead of lines");
  const CommandLine line = parse_command_line(
      "usage: [mpirun -np N] muster-train eval CHECKPOINT [--data-path DIR] [--json]\n\n"
      "Loss and accuracy of a checkpoint (step-…, or a directory of checkpoints: the newest sound one) on "
      "the\n"
      "test data, with the configuration stored in it. The same numbers on any number of ranks.",
      flags, 1, argc, argv);
  if (line.exit_code) return *line.exit_code;
  Rank rank;
  const Result<Evaluation> evaluation =
      run(rank, line.arguments[0], line.flags["data-path"].as<std::string>());
  if (!evaluation) leave_after_fault(rank, evaluation.error());
  if (rank.rank() == 0) show(*evaluation, line.flags["json"].as<bool>());
  if (const Status finished = finish(rank); !finished) leave_after_fault(rank, finished.error());
  return contract::kExitDone;
}

}  // namespace muster::commands
