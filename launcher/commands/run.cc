// muster run FILE: plans the task, finds or makes its run, and supervises it to its end.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/journal.h"
#include "common/run_contract.h"
#include "common/version.h"
#include "launcher/commands/command_line.h"
#include "launcher/commands/commands.h"
#include "launcher/mpirun_launcher.h"
#include "launcher/plan_options.h"
#include "launcher/preflight.h"
#include "launcher/process_tree.h"
#include "launcher/rank_logs.h"
#include "launcher/run_loop.h"
#include "launcher/run_selection.h"
#include "launcher/shell_words.h"
#include "launcher/task_spec.h"

namespace muster::commands {
namespace {

namespace po = boost::program_options;
using nlohmann::json;

struct RunCommand {
  std::string file;
  std::string again;  // the command that goes on with the run
  PlanRequest request;
  RunSelectionOptions selection;
  OutputMode output = OutputMode::kNormal;
  std::uint64_t log_bytes_max = RankLogs::kDefaultBytesMax;
};

int report_run_error(const Error& error) {
  const int code = report_error(error);
  if (error.code == ErrorCode::kMismatch) return contract::kMusterTaskChanged;
  if (error.code == ErrorCode::kAlreadyExists) return contract::kMusterLeaseHeld;
  return code;
}

Result<std::string> own_executable() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(ErrorCode::kIo, "cannot read /proc/self/exe: {}", error.message());
  return path.string();
}

Result<std::unique_ptr<EventServer>> listen_for_events(const Plan& plan, const RunDirectory& run,
                                                       const Allocation& allocation) {
  std::vector<std::string> hosts;
  for (const Host& host : allocation.hosts) hosts.push_back(host.name);
  EventServer::Options options;
  MUSTER_ASSIGN(options.bind_address, event_address_for(hosts, plan.network_interface));
  MUSTER_ASSIGN(options.key, read_text_file(run.channel_key()));
  while (options.key.ends_with('\n')) options.key.pop_back();
  options.run_id = run.run_id;
  options.world_size = plan.world_size;
  return EventServer::listen(options);
}

// Nothing of an earlier attempt may run beside the next one. A supervisor that died took its processes along;
// a supervisor that died together with its guard did not.
Status end_leftovers(const RunDirectory& run) {
  constexpr std::chrono::seconds kPatience{8};
  constexpr std::chrono::seconds kDeadline{30};
  const std::vector<pid_t> left = end_processes_of_run(run.run_id, kPatience, Deadline::after(kDeadline));
  if (left.empty()) return {};
  return fail(ErrorCode::kUnavailable,
              "processes of an earlier attempt of {} cannot be ended: {}; end them, then start again",
              run.run_id, fmt::join(left, ", "));
}

Status open_run(const SelectedRun& selected, const Plan& plan, const std::string& task_text,
                JournalWriter& journal) {
  MUSTER_TRY(journal.append({{"event", contract::event::kRunStarted},
                             {"run", selected.run.run_id},
                             {"task", plan.task_name},
                             {"task_file", plan.task_file},
                             {"version", kVersion},
                             {"continued", !selected.is_new}},
                            true));
  if (selected.is_new) return {};
  if (!selected.differences.empty()) {
    json differences = json::array();
    for (const FingerprintDifference& difference : selected.differences) {
      differences.push_back(
          {{"key", difference.key}, {"before", difference.before}, {"now", difference.now}});
    }
    MUSTER_TRY(journal.append(
        {{"event", contract::event::kTaskChanged}, {"differences", std::move(differences)}}, true));
  }
  return update_run(selected.run, plan, task_text);
}

RunOutcome outcome_of(const RunDirectory& run, RunHistory history) {
  RunOutcome outcome;
  outcome.run_id = run.run_id;
  outcome.state = history.state;
  outcome.exit_code = history.exit_code;
  outcome.journal = run.journal().string();
  outcome.logs = run.logs(history.attempts).string();
  outcome.history = std::move(history);
  return outcome;
}

// The journal may lack an attempt (a full disk); its files are there all the same, and must not be used
// again.
int last_attempt_directory(const RunDirectory& run) {
  int last = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(run.attempt(1).parent_path(), error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    last = std::max(last, number);
  }
  return last;
}

supervise::Options supervision_of(const Plan& plan, const RunDirectory& run, const RunHistory& history) {
  supervise::Options options;
  options.world_size = plan.world_size;
  options.is_trainer = plan.is_trainer;
  options.stop_signal = signal_number(plan.stop_signal);
  options.retry = plan.retry;
  options.grace = plan.grace;
  options.first_generation = std::max(history.attempts, last_attempt_directory(run)) + 1;
  options.last_checkpoint_step = history.committed_step;
  return options;
}

Result<int> supervise_run(SelectedRun& selected, const Plan& plan, const std::string& task_text,
                          const Allocation& allocation, const RunCommand& command, Console& console) {
  const StopSignals signals;
  MUSTER_TRY(end_leftovers(selected.run));
  MUSTER_ASSIGN(JournalWriter journal, JournalWriter::open(selected.run.journal()));
  MUSTER_TRY(open_run(selected, plan, task_text, journal));
  MUSTER_ASSIGN(const std::unique_ptr<EventServer> events, listen_for_events(plan, selected.run, allocation));
  MUSTER_ASSIGN(const std::string executable, own_executable());
  const std::unique_ptr<ProcessLauncher> launcher = make_mpirun_launcher(executable);
  console.notice(fmt::format("{} run {}, {} ranks", selected.is_new ? "starting" : "continuing",
                             selected.run.run_id, plan.world_size));
  MUSTER_ASSIGN(
      const RunLoopResult result,
      run_supervised({plan, selected.run, allocation, *launcher, *events, selected.lease, journal, console,
                      signals, command.log_bytes_max, supervision_of(plan, selected.run, selected.history)}));

  auto contents = read_journal(selected.run.journal());
  MUSTER_TRY(contents);
  RunOutcome outcome = outcome_of(selected.run, read_history(contents->events));
  outcome.state = supervise::run_state_name(result.finish.state);
  outcome.exit_code = result.finish.exit_code;
  outcome.explanation = result.finish.verdict.explanation;
  outcome.command = command.again;
  outcome.failed_rank = result.failed_rank;
  outcome.failed_log = result.failed_log;
  outcome.failed_output = result.failed_output;
  console.outcome(outcome);
  return result.finish.exit_code;
}

Result<int> run_task(const RunCommand& command) {
  MUSTER_ASSIGN(const TaskSpec spec, load_task_file(command.file));
  MUSTER_ASSIGN(const PlanOptions options, plan_options_here(command.request, spec));
  MUSTER_ASSIGN(const Plan plan, make_plan(spec, options));
  MUSTER_ASSIGN(const bool has_checkpoint, continues_from_checkpoint(plan, command.selection));
  MUSTER_TRY(check_inputs(plan, has_checkpoint));
  const std::unique_ptr<Scheduler> scheduler = make_local_scheduler();
  MUSTER_ASSIGN(const Allocation allocation, scheduler->allocate(plan));
  Console console(command.output);
  for (const std::string& notice : plan.notices) console.notice(notice);
  MUSTER_ASSIGN(SelectedRun selected, select_run(plan, spec.source_text, command.selection));
  if (selected.history.is_done() && selected.differences.empty()) {
    console.notice(fmt::format("run {} is already complete; --new starts another", selected.run.run_id));
    console.outcome(outcome_of(selected.run, selected.history));
    return contract::kMusterOk;
  }
  Result<int> exit_code = supervise_run(selected, plan, spec.source_text, allocation, command, console);
  MUSTER_TRY(scheduler->release(allocation));
  return exit_code;
}

// The same command, without what was meant for this time only.
std::string command_to_go_on(Arguments arguments) {
  std::erase_if(arguments,
                [](const std::string& word) { return word == "--new" || word == "--accept-changes"; });
  arguments.insert(arguments.begin(), {"muster", "run"});
  return shell_command(arguments);
}

}  // namespace

int run(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()("hostfile", po::value<std::string>()->default_value(""),
                        "hosts to run on, one `name slots=N` a line")(
      "rsh-agent", po::value<std::string>()->default_value(""),
      "program to start daemons on hosts with (instead of ssh)")(
      "new", po::bool_switch(), "start another run, whatever became of the last one")(
      "accept-changes", po::bool_switch(), "go on with the run though the task has changed")(
      "quiet", po::bool_switch(), "show only errors and the result")("json", po::bool_switch(),
                                                                     "show events as JSON lines")(
      "log-limit", po::value<std::uint64_t>()->default_value(RankLogs::kDefaultBytesMax),
      "bytes of a rank's log file; one older file is kept besides");
  const ParsedLine line =
      parse_command_line({"usage: muster run FILE [OPTIONS]\n\n"
                          "Runs a task to its end. The same command again goes on with an unfinished run.\n"
                          "Ctrl-C asks the ranks to save a checkpoint and stop; a second Ctrl-C kills them.",
                          options, "FILE"},
                         arguments);
  if (line.exit_code) return *line.exit_code;
  RunCommand command;
  command.again = command_to_go_on(arguments);
  command.file = line.values["FILE"].as<std::vector<std::string>>().front();
  command.request = {line.values["hostfile"].as<std::string>(), line.values["rsh-agent"].as<std::string>()};
  command.selection = {line.values["new"].as<bool>(), line.values["accept-changes"].as<bool>()};
  command.log_bytes_max = line.values["log-limit"].as<std::uint64_t>();
  const bool quiet = line.values["quiet"].as<bool>();
  const bool as_json = line.values["json"].as<bool>();
  if (quiet && as_json) {
    fmt::print(stderr, "muster: --quiet and --json exclude each other\n");
    return contract::kMusterUsage;
  }
  command.output = quiet ? OutputMode::kQuiet : as_json ? OutputMode::kJson : OutputMode::kNormal;
  const Result<int> exit_code = run_task(command);
  return exit_code ? *exit_code : report_run_error(exit_code.error());
}

}  // namespace muster::commands
