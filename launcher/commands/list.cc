// muster list: the runs of this user on this machine.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "common/clock.h"
#include "common/run_contract.h"
#include "launcher/commands/command_line.h"
#include "launcher/run_index.h"
#include "launcher/run_summary.h"

namespace muster::commands {
namespace {

constexpr std::size_t kColumns = 5;
using Row = std::array<std::string, kColumns>;

std::string progress_of(const RunSummary& summary) {
  if (!summary.step) return "-";
  return summary.total_steps ? fmt::format("{}/{}", *summary.step, *summary.total_steps)
                             : std::to_string(*summary.step);
}

// To the second: more does not help anybody who looks for a run.
std::string start_of(const IndexedRun& indexed) { return iso8601_utc(std::floor(indexed.created_unix_s)); }

Row row_of(const IndexedRun& indexed, const Result<RunReport>& report) {
  Row row{indexed.run.run_id, "UNREADABLE", indexed.task_name, "-", start_of(indexed)};
  if (indexed.missing) row[1] = "MISSING";
  if (report) {
    row[1] = condition_name(report->summary.condition);
    row[3] = progress_of(report->summary);
  }
  return row;
}

nlohmann::json json_of(const IndexedRun& indexed, const Result<RunReport>& report) {
  if (report) return report_to_json(*report);
  return {{"run", indexed.run.run_id},
          {"task", indexed.task_name},
          {"directory", indexed.run.path.string()},
          {"state", indexed.missing ? "MISSING" : "UNREADABLE"},
          {"created_unix_s", indexed.created_unix_s},
          {"error", report.error().message}};
}

void print_table(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

}  // namespace

int list(const Arguments& arguments) {
  boost::program_options::options_description options("Options");
  options.add_options()("json", "as a JSON array, with all that `muster status --json` tells of each");
  const ParsedLine line = parse_command_line(
      {"usage: muster list [--json]\n\nLists runs, newest first.", options, ""}, arguments);
  if (line.exit_code) return *line.exit_code;
  const bool as_json = line.values.contains("json");
  const auto runs = indexed_runs();
  if (!runs) return report_error(runs.error());
  std::vector<Row> rows{{"RUN", "STATE", "TASK", "STEP", "CREATED"}};
  nlohmann::json all = nlohmann::json::array();
  for (const IndexedRun& indexed : *runs) {
    const auto run = report_run(indexed.run);
    if (as_json) {
      all.push_back(json_of(indexed, run));
    } else {
      rows.push_back(row_of(indexed, run));
    }
  }
  if (as_json) {
    fmt::print("{}\n", all.dump(2));
  } else if (runs->empty()) {
    fmt::print("no runs yet (index {})\n", state_directory().string());
  } else {
    print_table(rows);
  }
  return contract::kMusterOk;
}

}  // namespace muster::commands
