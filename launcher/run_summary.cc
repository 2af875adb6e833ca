#include "launcher/run_summary.h"

#include <algorithm>

#include "common/journal.h"
#include "common/run_contract.h"
#include "launcher/lease.h"

namespace muster {
namespace {

using nlohmann::json;
namespace event = contract::event;

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

template <class Integer>
std::optional<Integer> integer_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<Integer>();
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

const json& object_of(const json& object, const char* name) {
  static const json kEmpty = json::object();
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : kEmpty;
}

// Hosts as the supervisor writes them: names, or objects with a name.
std::vector<std::string> hosts_of(const json& started) {
  std::vector<std::string> hosts;
  const auto found = started.find("hosts");
  if (found == started.end() || !found->is_array()) return hosts;
  for (const json& host : *found) {
    if (host.is_string()) hosts.push_back(host);
    if (host.is_object() && !text_of(host, "name").empty()) hosts.push_back(text_of(host, "name"));
  }
  return hosts;
}

// Reads events in their order and keeps what the summary needs.
class Summarizer {
 public:
  void read(const json& entry) {
    const std::string name = text_of(entry, "event");
    if (name == event::kRunStarted) return begins(entry);
    if (name == event::kRunEnded) return run_ended(entry);
    if (name == event::kAttemptStarted) return attempt_started(entry);
    if (name == event::kAttemptEnded) return attempt_ended(entry);
    if (name == event::kResumed) return resumed(entry);
    if (name == event::kStep) return stepped(entry);
    if (name == event::kEvaluation) summary_.last_evaluation = entry;
    if (name == event::kCheckpoint) summary_.last_checkpoint = entry;
    if (name == event::kCheckpointQuarantined) quarantined();
    if (name == event::kCheckpointFailed) ++summary_.checkpoints_failed;
    if (name == event::kFinished) finished(entry);
  }

  RunSummary finish(bool lease_is_live) {
    if (!ended_as_.empty()) {
      summary_.condition = condition_of(ended_as_);
    } else if (lease_is_live) {
      summary_.condition = RunCondition::kRunning;
    }
    return std::move(summary_);
  }

 private:
  static RunCondition condition_of(const std::string& state) {
    if (state == "done" || state == "completed") return RunCondition::kCompleted;
    if (state == "stopped" || state == "killed") return RunCondition::kStopped;
    return RunCondition::kFailed;
  }

  // Also a continuation of what was stopped, or had failed.
  void begins(const json& entry) {
    if (summary_.started.empty()) summary_.started = text_of(entry, "time");
    summary_.ended.clear();
    summary_.exit_code.reset();
    ended_as_.clear();
  }

  void run_ended(const json& entry) {
    summary_.ended = text_of(entry, "time");
    summary_.exit_code = integer_of<int>(entry, "exit_code");
    ended_as_ = text_of(entry, "state");
    if (ended_as_.empty()) ended_as_ = "failed";
  }

  AttemptSummary& attempt(const json& entry) {
    const int number =
        integer_of<int>(entry, "attempt").value_or(integer_of<int>(entry, "generation").value_or(0));
    auto& attempts = summary_.attempts;
    const auto found = std::find_if(attempts.begin(), attempts.end(),
                                    [&](const AttemptSummary& a) { return a.number == number; });
    if (found != attempts.end()) return *found;
    attempts.emplace_back().number = number;
    return attempts.back();
  }

  void attempt_started(const json& entry) {
    begins(entry);
    AttemptSummary& started = attempt(entry);
    started.started = text_of(entry, "time");
    started.hosts = hosts_of(entry);
  }

  void attempt_ended(const json& entry) {
    AttemptSummary& ended = attempt(entry);
    ended.ended = text_of(entry, "time");
    const json& verdict = object_of(entry, "verdict");
    ended.cause = text_of(verdict, "cause");
    ended.explanation = text_of(verdict, "explanation");
    ended.budget = text_of(verdict, "budget");
    ended.node = text_of(verdict, "node");
    if (const auto rank = integer_of<int>(verdict, "rank"); rank && *rank >= 0) ended.rank = rank;
  }

  void resumed(const json& entry) {
    const auto step = integer_of<std::int64_t>(entry, "step");
    attempt(entry).resumed_step = step;
    if (step) summary_.step = step;
    if (summary_.last_checkpoint.is_null() && !text_of(entry, "checkpoint").empty()) {
      summary_.last_checkpoint = {{"step", or_null(step)}, {"path", text_of(entry, "checkpoint")}};
    }
  }

  // The last one may be among them; what is resumed from is sound.
  void quarantined() {
    ++summary_.checkpoints_quarantined;
    summary_.last_checkpoint = nullptr;
  }

  void stepped(const json& entry) {
    summary_.last_step = entry;
    if (const auto step = integer_of<std::int64_t>(entry, "step")) summary_.step = step;
    if (const auto total = integer_of<std::int64_t>(entry, "total_steps")) summary_.total_steps = total;
  }

  void finished(const json& entry) {
    if (const auto step = integer_of<std::int64_t>(entry, "step")) summary_.step = step;
    if (entry.contains("result")) summary_.result = entry.at("result");
  }

  RunSummary summary_;
  std::string ended_as_;
};

json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }

json attempt_to_json(const AttemptSummary& attempt) {
  json verdict;
  if (!attempt.cause.empty()) {
    verdict = {{"cause", attempt.cause},
               {"explanation", attempt.explanation},
               {"budget", attempt.budget},
               {"rank", or_null(attempt.rank)},
               {"node", text_or_null(attempt.node)}};
  }
  return {{"attempt", attempt.number},
          {"started", text_or_null(attempt.started)},
          {"ended", text_or_null(attempt.ended)},
          {"hosts", attempt.hosts},
          {"resumed_step", or_null(attempt.resumed_step)},
          {"verdict", verdict}};
}

}  // namespace

std::string_view condition_name(RunCondition condition) {
  switch (condition) {
    case RunCondition::kRunning:
      return "RUNNING";
    case RunCondition::kCompleted:
      return "COMPLETED";
    case RunCondition::kStopped:
      return "STOPPED";
    case RunCondition::kFailed:
      return "FAILED";
    case RunCondition::kInterrupted:
      break;
  }
  return "INTERRUPTED";
}

RunSummary summarize(const std::vector<json>& events, bool lease_is_live) {
  Summarizer summarizer;
  for (const json& entry : events) {
    if (entry.is_object()) summarizer.read(entry);
  }
  return summarizer.finish(lease_is_live);
}

Result<RunReport> report_run(const RunDirectory& run) {
  RunReport report;
  report.run = run;
  MUSTER_ASSIGN(report.info, read_run_info(run));
  // The lease first: a run that ends in between has then written its end into the journal.
  report.holder = live_lease_holder(run.path);
  auto journal = read_journal(run.journal());
  if (!journal && journal.error().code != ErrorCode::kNotFound) {
    return tl::unexpected<Error>(std::move(journal).error());
  }
  if (journal) report.journal_torn = journal->torn;
  report.summary = summarize(journal ? journal->events : std::vector<json>(), report.holder.has_value());
  return report;
}

json report_to_json(const RunReport& report) {
  const RunSummary& summary = report.summary;
  json attempts = json::array();
  for (const AttemptSummary& attempt : summary.attempts) attempts.push_back(attempt_to_json(attempt));
  json holder;
  if (report.holder) holder = {{"host", report.holder->host}, {"pid", report.holder->pid}};
  return {{"run", report.run.run_id},
          {"task", report.info.task_name},
          {"task_file", report.info.task_file},
          {"directory", report.run.path.string()},
          {"state", condition_name(summary.condition)},
          {"created_unix_s", report.info.created_unix_s},
          {"started", text_or_null(summary.started)},
          {"ended", text_or_null(summary.ended)},
          {"exit_code", or_null(summary.exit_code)},
          {"holder", holder},
          {"step", or_null(summary.step)},
          {"total_steps", or_null(summary.total_steps)},
          {"last_step", summary.last_step},
          {"last_evaluation", summary.last_evaluation},
          {"last_checkpoint", summary.last_checkpoint},
          {"checkpoints_quarantined", summary.checkpoints_quarantined},
          {"checkpoints_failed", summary.checkpoints_failed},
          {"result", summary.result},
          {"attempts", attempts}};
}

}  // namespace muster
