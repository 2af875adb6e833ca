#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/run_contract.h"
#include "trainer/commands/command_line.h"
#include "trainer/commands/commands.h"
#include "trainer/evaluation.h"
#include "trainer/exit_codes.h"
#include "trainer/rank.h"
#include "trainer/standard_output.h"

namespace muster::commands {
namespace {

namespace po = boost::program_options;

std::string text_of(const Evaluation& evaluation, bool as_json) {
  if (as_json) {
    const nlohmann::json json = {
        {"checkpoint", evaluation.checkpoint}, {"step", evaluation.step}, {"data_path", evaluation.data_path},
        {"samples", evaluation.samples},       {"loss", evaluation.loss}, {"accuracy", evaluation.accuracy}};
    return json.dump() + "\n";
  }
  return fmt::format(
      "checkpoint  {} (step {})\n"
      "data        {} ({} samples)\n"
      "loss        {:.6g}\n"
      "accuracy    {:.6g}\n",
      evaluation.checkpoint, evaluation.step, evaluation.data_path, evaluation.samples, evaluation.loss,
      evaluation.accuracy);
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
  if (!evaluation) leave_after_fault(rank, as_command_error(evaluation.error()));
  int exit_code = contract::kExitDone;
  if (rank.rank() == 0) exit_code = print_result(text_of(*evaluation, line.flags["json"].as<bool>()));
  if (const Status finished = finish(rank); !finished) leave_after_fault(rank, finished.error());
  return exit_code;
}

}  // namespace muster::commands
