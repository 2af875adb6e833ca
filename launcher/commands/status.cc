// muster status: what became of one run, from its journal and lease alone.
#include <cstdio>

#include "common/run_contract.h"
#include "launcher/commands/run_argument.h"
#include "launcher/run_summary.h"

namespace muster::commands {
namespace {

using nlohmann::json;

void print_field(std::string_view name, const std::string& value) {
  if (!value.empty()) fmt::print("{:<11} {}\n", name, value);
}

// "loss 0.1234", or nothing if the event has no such number.
void add_number(std::string& text, const json& event, const char* name, std::string_view label, int decimals,
                std::string_view unit = "", double factor = 1) {
  const auto found = event.find(name);
  if (found == event.end() || !found->is_number()) return;
  text += fmt::format("{}{} {:.{}f}{}", text.empty() ? "" : ", ", label, found->get<double>() * factor,
                      decimals, unit);
}

std::string progress_text(const RunSummary& summary) {
  if (!summary.step) return "";
  std::string text = fmt::format("step {}", *summary.step);
  if (summary.total_steps) text += fmt::format(" of {}", *summary.total_steps);
  if (summary.last_step.is_object()) {
    add_number(text, summary.last_step, "epoch", "epoch", 0);
    add_number(text, summary.last_step, "loss", "loss", 4);
    add_number(text, summary.last_step, "samples_per_s", "samples/s", 0);
  }
  return text;
}

std::string evaluation_text(const json& event) {
  std::string text;
  if (!event.is_object()) return text;
  add_number(text, event, "step", "step", 0);
  add_number(text, event, "accuracy", "accuracy", 2, " %", 100);
  add_number(text, event, "loss", "loss", 4);
  return text;
}

std::string checkpoint_text(const RunSummary& summary) {
  std::string text;
  const json& event = summary.last_checkpoint;
  if (event.is_object()) {
    add_number(text, event, "step", "step", 0);
    if (event.contains("path") && event.at("path").is_string()) {
      text += ", " + event.at("path").get<std::string>();
    }
  }
  if (summary.checkpoints_failed > 0)
    text += fmt::format("; {} could not be saved", summary.checkpoints_failed);
  if (summary.checkpoints_quarantined > 0) {
    text += fmt::format("; {} damaged and put aside", summary.checkpoints_quarantined);
  }
  return text;
}

std::string state_text(const RunReport& report) {
  std::string text(condition_name(report.summary.condition));
  if (report.holder) text += fmt::format(" (pid {} on host {})", report.holder->pid, report.holder->host);
  if (report.summary.exit_code) text += fmt::format(" (exit code {})", *report.summary.exit_code);
  return text;
}

void print_attempt(const AttemptSummary& attempt, bool is_last_of_running) {
  fmt::print("  {:>3}  {} → {}", attempt.number, attempt.started.empty() ? "?" : attempt.started,
             !attempt.ended.empty() ? attempt.ended
             : is_last_of_running   ? "running"
                                    : "broken off: its muster ended without a word");
  if (attempt.resumed_step) fmt::print(", from step {}", *attempt.resumed_step);
  if (!attempt.cause.empty()) fmt::print("  {}: {}", attempt.cause, attempt.explanation);
  fmt::print("\n");
}

void print_result(const json& result) {
  if (result.is_null()) return;
  if (!result.is_object()) return print_field("result", result.dump());
  fmt::print("result\n");
  for (const auto& [name, value] : result.items()) {
    fmt::print("  {:<24} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
  }
}

void print_text(const RunReport& report) {
  const RunSummary& summary = report.summary;
  print_field("run", report.run.run_id);
  print_field("task", fmt::format("{} ({})", report.info.task_name, report.info.task_file));
  print_field("state", state_text(report));
  print_field("directory", report.run.path.string());
  print_field("started", summary.started);
  print_field("ended", summary.ended);
  print_field("progress", progress_text(summary));
  print_field("evaluation", evaluation_text(summary.last_evaluation));
  print_field("checkpoint", checkpoint_text(summary));
  if (report.journal_torn) print_field("journal", "its last line was cut off while it was written");
  if (!summary.attempts.empty()) fmt::print("attempts\n");
  const bool running = summary.condition == RunCondition::kRunning;
  for (const AttemptSummary& attempt : summary.attempts) {
    print_attempt(attempt, running && &attempt == &summary.attempts.back());
  }
  print_result(summary.result);
}

}  // namespace

int status(const Arguments& arguments) {
  boost::program_options::options_description options("Options");
  options.add_options()("json", "as a JSON object");
  const ParsedLine line =
      parse_command_line({fmt::format("usage: muster status RUN [--json]\n\nShows what became of a run.\n{}",
                                      run_argument_help()),
                          options, kRunArgument, 1, kRunArgumentForms},
                         arguments);
  if (line.exit_code) return *line.exit_code;
  const NamedRun named = named_run(line);
  if (named.exit_code) return *named.exit_code;
  const auto found = report_run(named.run);
  if (!found) return report_run_error(found.error());
  if (line.values.contains("json")) {
    fmt::print("{}\n", report_to_json(*found).dump(2));
  } else {
    print_text(*found);
  }
  return contract::kMusterOk;
}

}  // namespace muster::commands
