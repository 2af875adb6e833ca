// muster logs: the output of a run's ranks, also while it is written.
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/file_ops.h"
#include "common/run_contract.h"
#include "launcher/commands/run_argument.h"
#include "launcher/lease.h"
#include "launcher/log_reader.h"

namespace muster::commands {
namespace {

namespace po = boost::program_options;

constexpr std::chrono::milliseconds kPause{100};

struct LogsRequest {
  RunDirectory run;
  std::optional<int> attempt;
  std::optional<int> rank;
  std::optional<int> tail;
  bool follow = false;
};

int world_size_of(const RunDirectory& run) {
  const auto text = read_text_file(run.plan());
  const auto plan = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  return plan.is_object() && plan.contains("world_size") && plan.at("world_size").is_number_integer()
             ? plan.at("world_size").get<int>()
             : 0;
}

// Shows lines: at first only the last ones of each rank, if that was asked for; later all.
class Printer {
 public:
  explicit Printer(const LogsRequest& request)
      : prefixed_(!request.rank && world_size_of(request.run) > 1), tail_(request.tail) {}

  void line(int rank, std::string_view text) {
    if (!tail_) return print(rank, text);
    std::deque<std::string>& last = last_lines_[rank];
    last.emplace_back(text);
    if (last.size() > static_cast<std::size_t>(*tail_)) last.pop_front();
  }

  // From now on everything is shown.
  void end_of_tail() {
    for (const auto& [rank, lines] : last_lines_) {
      for (const std::string& text : lines) print(rank, text);
    }
    last_lines_.clear();
    tail_.reset();
  }

 private:
  void print(int rank, std::string_view text) const {
    if (rank == kLauncherLog) {
      fmt::print("[launcher] {}\n", text);
    } else if (prefixed_) {
      fmt::print("[{}] {}\n", rank, text);
    } else {
      fmt::print("{}\n", text);
    }
  }

  bool prefixed_;
  std::optional<int> tail_;
  std::map<int, std::deque<std::string>> last_lines_;
};

// The attempt to go on with after `current` (0: none yet), or nothing.
std::optional<int> next_attempt(const std::vector<int>& attempts, int current, bool any_before) {
  if (!any_before) return attempts.empty() ? std::nullopt : std::optional(attempts.back());
  for (const int number : attempts) {
    if (number > current) return number;
  }
  return std::nullopt;
}

int show(const LogsRequest& request) {
  Printer printer(request);
  const auto sink = [&](int rank, std::string_view text) { printer.line(rank, text); };
  std::optional<int> attempt = request.attempt;
  std::optional<AttemptLogs> logs;
  for (;;) {
    // Before reading: what a run wrote before it let go of its lease is then read below.
    const bool is_live = live_lease_holder(request.run.path).has_value();
    const auto newer =
        next_attempt(attempts_with_logs(request.run.logs()), attempt.value_or(0), attempt.has_value());
    if (!attempt) attempt = newer;
    if (attempt) {
      if (!logs) logs.emplace(request.run.logs(*attempt), request.rank);
      logs->read(sink);
      const bool is_over = !request.follow || !is_live || newer.value_or(*attempt) > *attempt;
      if (is_over) logs->finish(sink);
      printer.end_of_tail();
      const bool goes_on = request.follow && !request.attempt && newer.value_or(*attempt) > *attempt;
      if (goes_on) {
        fmt::print("==> attempt {} <==\n", *newer);
        attempt = newer;
        logs.reset();
        continue;
      }
      if (is_over) return contract::kMusterOk;
    } else if (!request.follow || !is_live) {
      return report_run_error(
          {ErrorCode::kNotFound, fmt::format("run {} has no output yet", request.run.run_id)});
    }
    std::fflush(stdout);
    std::this_thread::sleep_for(kPause);
  }
}

std::optional<int> number_of(const ParsedLine& line, const char* name) {
  return line.values.contains(name) ? std::optional(line.values[name].as<int>()) : std::nullopt;
}

// An attempt or rank that was asked for by number must be there.
Status check_request(const LogsRequest& request) {
  const std::vector<int> attempts = attempts_with_logs(request.run.logs());
  const auto exists = [](const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  };
  if (request.attempt && !exists(request.run.logs(*request.attempt))) {
    return fail(
        ErrorCode::kNotFound, "run {} has no output of an attempt {}; {}", request.run.run_id,
        *request.attempt,
        attempts.empty() ? "it has none at all yet" : fmt::format("the last one is {}", attempts.back()));
  }
  const int world_size = world_size_of(request.run);
  if (request.rank && (*request.rank < 0 || (world_size > 0 && *request.rank >= world_size))) {
    return fail(ErrorCode::kNotFound, "run {} has no rank {}: its ranks are 0 to {}", request.run.run_id,
                *request.rank, world_size - 1);
  }
  if (request.tail && *request.tail < 0) return fail(ErrorCode::kInvalidArgument, "--tail must be ≥ 0");
  return {};
}

}  // namespace

int logs(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()("follow,f", "go on as more is written, over restarts, until the run ends")(
      "attempt", po::value<int>()->value_name("N"), "of this attempt only")(
      "rank", po::value<int>()->value_name("R"), "of this rank only")(
      "tail", po::value<int>()->value_name("N"), "begin with the last N lines of each rank");
  const ParsedLine line = parse_command_line(
      {fmt::format(
           "usage: muster logs RUN [-f] [--attempt N] [--rank R] [--tail N]\n\nShows what the ranks of a "
           "run wrote, of its last attempt unless told otherwise.\n{}",
           run_argument_help()),
       options, kRunArgument, 1, kRunArgumentForms},
      arguments);
  if (line.exit_code) return *line.exit_code;
  const NamedRun named = named_run(line);
  if (named.exit_code) return *named.exit_code;
  if (const auto info = read_run_info(named.run); !info) return report_run_error(info.error());
  const LogsRequest request{named.run, number_of(line, "attempt"), number_of(line, "rank"),
                            number_of(line, "tail"), line.values.contains("follow")};
  if (const Status checked = check_request(request); !checked) return report_run_error(checked.error());
  return show(request);
}

}  // namespace muster::commands
