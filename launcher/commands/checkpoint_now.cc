// muster checkpoint now RUN: asks a live run to save, and waits until its journal says that it has.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/clock.h"
#include "common/json_fields.h"
#include "common/run_contract.h"
#include "launcher/commands/command_line.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/run_argument.h"
#include "launcher/lease.h"
#include "launcher/log_reader.h"
#include "launcher/run_summary.h"
#include "launcher/save_requests.h"
#include "launcher/units.h"

namespace muster::commands {
namespace {

namespace po = boost::program_options;
namespace name = contract::event;
using nlohmann::json;
using std::chrono::milliseconds;

constexpr const char* kUsage =
    "usage: muster checkpoint now RUN [--timeout T] [--json]\n\n"
    "Asks a run that is going on to save a checkpoint now, waits until it is committed and prints its path. "
    "Works from\nany host that sees the run's directory.\n"
    "Exit code: 0, 69 if the run is not going on or its program takes no requests, 74 if the checkpoint "
    "could "
    "not be\nstored, 75 if it took longer than T.";

constexpr int kPoll_ms = 100;
constexpr int kPollsPerLeaseCheck = 20;  // the lease may lie on a network file system

bool names_request(const json& event, const std::string& id) {
  const auto requests = event.find("requests");
  return requests != event.end() && requests->is_array() &&
         std::find(requests->begin(), requests->end(), id) != requests->end();
}

// The path of the checkpoint, or why there is none, once an event tells.
std::optional<Result<std::string>> answer_in(const json& event, const std::string& id) {
  const std::string kind = text_field(event, "event");
  if (kind == name::kSaveRequested && text_field(event, "request") == id) {
    const std::string refused = text_field(event, "refused");
    if (!refused.empty()) return fail(ErrorCode::kUnavailable, "{}", refused);
  }
  if (!names_request(event, id)) return std::nullopt;
  if (kind == name::kCheckpoint) return text_field(event, "path");
  if (kind == name::kCheckpointFailed) {
    return fail(ErrorCode::kNotStored, "the checkpoint is not stored: {}", text_field(event, "reason"));
  }
  return std::nullopt;
}

Status require_running(const RunReport& report) {
  if (report.holder) return {};
  return fail(ErrorCode::kUnavailable, "run {} is {}; only a run that is going on can save",
              report.run.run_id, condition_name(report.summary.condition));
}

class Journal {
 public:
  explicit Journal(const RunDirectory& run) : file_(run.journal()) {
    file_.read([](std::string_view) {});  // what was before the request
  }
  std::optional<Result<std::string>> look_for_answer(const std::string& id) {
    std::optional<Result<std::string>> answer;
    file_.read([&](std::string_view line) {
      const json event = json::parse(line, nullptr, false);
      if (!answer && event.is_object()) answer = answer_in(event, id);
    });
    return answer;
  }

 private:
  LogFile file_;
};

Result<std::string> save_now(const RunDirectory& run, milliseconds timeout) {
  MUSTER_ASSIGN(const RunReport report, report_run(run));
  MUSTER_TRY(require_running(report));
  const Deadline deadline = Deadline::after(timeout);
  Journal journal(run);
  MUSTER_ASSIGN(const std::string id, ask_for_save(run));
  for (int polls = 1;; ++polls) {
    const bool look_at_lease = polls % kPollsPerLeaseCheck == 0;
    // The lease first: a run that ends has written its last events before.
    const bool running = !look_at_lease || live_lease_holder(run.path).has_value();
    if (const auto answer = journal.look_for_answer(id)) return *answer;
    if (!running || deadline.expired()) {
      withdraw_request(run, id);
      if (running) {
        return fail(ErrorCode::kDeadlineExceeded, "no checkpoint of run {} within {}", run.run_id,
                    format_duration(timeout));
      }
      return fail(ErrorCode::kUnavailable, "run {} ended before it saved", run.run_id);
    }
    ::poll(nullptr, 0, kPoll_ms);
  }
}

}  // namespace

int checkpoint_now(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()("timeout", po::value<std::string>()->default_value("10m"), "how long to wait")(
      "json", "print JSON");
  const ParsedLine line =
      parse_command_line({kUsage, options, kRunArgument, 1, kRunArgumentForms}, arguments);
  if (line.exit_code) return *line.exit_code;
  const std::string timeout_text = line.values["timeout"].as<std::string>();
  const auto timeout = parse_duration(timeout_text);
  if (!timeout || timeout->count() <= 0) {
    fmt::print(stderr, "muster: --timeout is '{}'; allowed: a duration such as {}\n", timeout_text,
               kDurationForms);
    return contract::kMusterUsage;
  }
  const NamedRun named = named_run(line);
  if (named.exit_code) return *named.exit_code;
  const auto path = save_now(named.run, *timeout);
  if (!path) {
    const int exit_code = report_run_error(path.error());
    return path.error().code == ErrorCode::kDeadlineExceeded ? contract::kMusterTimedOut : exit_code;
  }
  if (line.values.contains("json")) {
    fmt::print("{}\n", json{{"checkpoint", *path}}.dump(2, ' ', false, json::error_handler_t::replace));
  } else {
    fmt::print("{}\n", *path);
  }
  return contract::kMusterOk;
}

}  // namespace muster::commands
