#include "launcher/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <regex>

#include "common/run_contract.h"

namespace muster {
namespace {

using nlohmann::json;
using Kind = LauncherReport::Kind;

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("signal {} (SIG{})", signal, name);
}

std::string rank_text(int rank, const std::string& node) {
  return node.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, node);
}

int number(const std::ssub_match& match) { return std::stoi(match.str()); }

// Long enough for a sentence, short enough for a line.
std::string clipped(const std::string& text) {
  constexpr std::size_t kMax = 300;
  return text.size() <= kMax ? text : text.substr(0, kMax) + "…";
}

// ": " and the last line that says something, if there is one.
std::string last_words(const std::vector<std::string>& lines) {
  const auto last = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
    return line.find_first_not_of("- ") != std::string::npos;
  });
  return last == lines.rend() ? "" : ": " + clipped(*last);
}

Verdict ended_by_muster(const Evidence& evidence) {
  switch (evidence.killed) {
    case KillReason::kUser:
      return {Cause::kStopped, -1, "", contract::kMusterKilled, "killed by the user's second stop signal",
              Budget::kNone};
    case KillReason::kStoppedEarly:
      return {Cause::kStopped,
              -1,
              "",
              contract::kMusterStopped,
              fmt::format("asked to stop when {} of {} ranks had started: there was nothing to save",
                          evidence.ranks_started, evidence.world_size),
              Budget::kNone};
    case KillReason::kGraceOver:
      return {Cause::kStopped,
              -1,
              "",
              contract::kMusterKilled,
              "asked to stop, it did not end within its grace, and was killed",
              Budget::kNone};
    case KillReason::kLeaseLost:
      return {Cause::kStopped,
              -1,
              "",
              contract::kMusterLeaseHeld,
              "another muster took this run over; ours was killed",
              Budget::kNone};
    case KillReason::kStartupTimeout:
      return {Cause::kLauncherError,
              -1,
              "",
              contract::kMusterUnavailable,
              fmt::format("only {} of {} ranks reported that they had started before the deadline",
                          evidence.ranks_started, evidence.world_size),
              Budget::kLauncherError};
    case KillReason::kNone:
      break;
  }
  return {};
}

Verdict ended_with_zero(const Evidence& evidence) {
  if (evidence.ranks_started < evidence.world_size) {
    return {Cause::kLauncherError,
            -1,
            "",
            contract::kMusterUnavailable,
            fmt::format("the launcher said all is well, but only {} of {} ranks ever started",
                        evidence.ranks_started, evidence.world_size),
            Budget::kLauncherError};
  }
  if (evidence.needs_finished_event && !evidence.finished_event) {
    return {Cause::kApplicationError,
            -1,
            "",
            contract::kMusterInternal,
            "the trainer left with exit code 0 without having reported a result",
            Budget::kCrash};
  }
  return {Cause::kDone, -1, "", contract::kMusterOk, "all ranks left with exit code 0", Budget::kNone};
}

// A code that a rank chose, from wherever we know it.
Verdict from_exit_code(int rank, const std::string& node, int code, const std::string& reason,
                       std::optional<int> peer) {
  const std::string who = rank >= 0 ? rank_text(rank, node) : "a rank";
  const std::string why = reason.empty() ? "" : ": " + clipped(reason);
  switch (code) {
    case contract::kExitRequeue:
      return {Cause::kStopped,
              rank,
              node,
              contract::kMusterStopped,
              fmt::format("{} left with {}: it saved its state and asks to be started again", who, code),
              Budget::kNone};
    case contract::kExitRetry:
      if (peer) {
        return {Cause::kPeerLost,    *peer, "", code, fmt::format("{} lost rank {}{}", who, *peer, why),
                Budget::kNodeFailure};
      }
      return {Cause::kPeerLost,
              rank,
              node,
              code,
              fmt::format("{} left with {} (a fault outside the program){}", who, code, why),
              Budget::kNodeFailure};
    case contract::kExitNotStored:
      return {Cause::kNotStored,
              rank,
              node,
              code,
              fmt::format("{} left with {} (its state could not be saved){}", who, code, why),
              Budget::kNone};
    case contract::kExitDoNotRetry:
      return {Cause::kDoNotRetry,
              rank,
              node,
              code,
              fmt::format("{} left with {} (starting again cannot help){}", who, code, why),
              Budget::kNone};
    default:
      return {Cause::kApplicationError,
              rank,
              node,
              code,
              fmt::format("{} left with exit code {}{}", who, code, why),
              Budget::kCrash};
  }
}

Verdict from_signal(const Evidence& evidence, int rank, const std::string& node, int signal) {
  if (evidence.stop_asked && signal == evidence.stop_signal) {
    return {Cause::kStopped,
            rank,
            node,
            contract::kMusterKilled,
            fmt::format("{} does not handle the stop signal and died by it ({})", rank_text(rank, node),
                        signal_text(signal)),
            Budget::kNone};
  }
  return {Cause::kKilledBySignal,
          rank,
          node,
          128 + signal,
          fmt::format("{} died by {}", rank_text(rank, node), signal_text(signal)),
          Budget::kCrash};
}

Verdict lost_node(const std::string& node) {
  return {Cause::kNodeFailure,
          -1,
          node,
          contract::kMusterUnavailable,
          fmt::format("the launcher lost node {}", node.empty() ? "(unnamed)" : node),
          Budget::kNodeFailure};
}

std::optional<Verdict> from_launcher_report(const Evidence& evidence, const LauncherReport& report) {
  switch (report.kind) {
    case Kind::kRankSignal:
      return from_signal(evidence, report.rank, report.node, report.number);
    case Kind::kRankExit:
    case Kind::kRankAbort:
      return from_exit_code(report.rank, report.node, report.number, "", std::nullopt);
    case Kind::kRankImproper:
      return Verdict{Cause::kApplicationError,
                     report.rank,
                     report.node,
                     1,
                     fmt::format("{} left in the middle of an MPI program, without MPI_Finalize",
                                 rank_text(report.rank, report.node)),
                     Budget::kCrash};
    case Kind::kDaemonLost:
      return lost_node(report.node);
    case Kind::kDaemonFailed:
      // mpirun says so, too, when the daemon of a node that had started all its ranks dies early.
      if (evidence.ranks_started == evidence.world_size) return lost_node(report.node);
      [[fallthrough]];
    case Kind::kNotEnoughSlots:
    case Kind::kCannotExecute:
      return Verdict{Cause::kLauncherError,
                     -1,
                     report.node,
                     contract::kMusterUnavailable,
                     fmt::format("the launcher could not start the ranks: {}", clipped(report.line)),
                     Budget::kLauncherError};
    case Kind::kNothing:
      break;
  }
  return std::nullopt;
}

const RankFault* first_fault(const Evidence& evidence) {
  const auto hopeless =
      std::find_if(evidence.faults.begin(), evidence.faults.end(),
                   [](const RankFault& fault) { return fault.exit_code == contract::kExitDoNotRetry; });
  if (hopeless != evidence.faults.end()) return &*hopeless;
  // Who lost a peer is a witness; who failed by itself is the cause, even if a witness was heard first.
  const auto own = std::find_if(evidence.faults.begin(), evidence.faults.end(), [](const RankFault& fault) {
    return fault.exit_code != contract::kExitRetry;
  });
  if (own != evidence.faults.end()) return &*own;
  return evidence.faults.empty() ? nullptr : &evidence.faults.front();
}

Verdict from_launcher_status(const Evidence& evidence) {
  const int code = evidence.exit.exit_code;
  if (evidence.ranks_started == 0) {
    return {Cause::kLauncherError,
            -1,
            "",
            contract::kMusterUnavailable,
            fmt::format("the launcher ended with {} before any rank had started{}", code,
                        last_words(evidence.launcher_lines)),
            Budget::kLauncherError};
  }
  if (code == 1) {
    return {Cause::kUnknown,
            -1,
            "",
            code,
            "the launcher ended with 1 and named no rank (a SIGTERM to mpirun looks like this)",
            Budget::kCrash};
  }
  return from_exit_code(-1, "", code, "", std::nullopt);
}

}  // namespace

LauncherReport read_launcher_report(const std::vector<std::string>& lines) {
  static const std::regex kSignal(R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+))");
  static const std::regex kProcess(R"(Process name: \[\[\d+,\d+\],(\d+)\])");
  static const std::regex kExitCode(R"(Exit code:\s+(\d+))");
  static const std::regex kAbort(R"(MPI_ABORT was invoked on rank (\d+) in communicator)");
  static const std::regex kAbortCode(R"(with errorcode (-?\d+))");
  static const std::regex kImproper(R"(mpirun has exited due to process rank (\d+) with PID)");
  static const std::regex kLostNode(R"(Remote daemon: .* on node (\S+))");
  LauncherReport report;
  std::smatch match;
  for (const std::string& line : lines) {
    // The first complete statement counts: what follows is mpirun's own clearing away.
    if (std::regex_search(line, match, kSignal)) {
      return {Kind::kRankSignal, number(match[1]), match[2].str(), number(match[3]), line};
    }
    if (std::regex_search(line, match, kProcess)) {
      report = {Kind::kRankExit, number(match[1]), "", 1, line};
    } else if (report.kind == Kind::kRankExit && std::regex_search(line, match, kExitCode)) {
      report.number = number(match[1]);
      return report;
    } else if (std::regex_search(line, match, kAbort)) {
      report = {Kind::kRankAbort, number(match[1]), "", 1, line};
    } else if (report.kind == Kind::kRankAbort && std::regex_search(line, match, kAbortCode)) {
      report.number = number(match[1]) & 0xff;
      return report;
    } else if (std::regex_search(line, match, kImproper)) {
      return {Kind::kRankImproper, number(match[1]), "", 0, line};
    } else if (line.find("There are not enough slots") != std::string::npos) {
      return {Kind::kNotEnoughSlots, -1, "", 0, line};
    } else if (line.find("could not access") != std::string::npos ||
               line.find("total processes failed to start") != std::string::npos) {
      report = {Kind::kCannotExecute, -1, "", 0, line};
    } else if (report.kind == Kind::kCannotExecute && line.find("Executable: ") != std::string::npos) {
      report.line += " " + line;
      return report;
    } else if (line.find("ORTE has lost communication with a remote daemon") != std::string::npos) {
      report = {Kind::kDaemonLost, -1, "", 0, line};
    } else if (report.kind == Kind::kDaemonLost && std::regex_search(line, match, kLostNode)) {
      report.node = match[1].str();
      return report;
    } else if (line.find("ORTE was unable to reliably start one or more daemons") != std::string::npos ||
               line.find("\"plm_rsh_agent\" was set to a path") != std::string::npos) {
      return {Kind::kDaemonFailed, -1, "", 0, line};
    }
  }
  return report;
}

Verdict judge(const Evidence& evidence) {
  if (evidence.killed != KillReason::kNone) return ended_by_muster(evidence);
  if (evidence.exit.term_signal != 0) {
    return {Cause::kNodeFailure,
            -1,
            "",
            128 + evidence.exit.term_signal,
            fmt::format("the launcher itself died by {}", signal_text(evidence.exit.term_signal)),
            Budget::kNodeFailure};
  }
  if (evidence.exit.exit_code == 0) return ended_with_zero(evidence);

  const LauncherReport report = read_launcher_report(evidence.launcher_lines);
  const RankFault* fault = first_fault(evidence);
  const bool fault_is_own = fault != nullptr && fault->exit_code != contract::kExitRetry;
  // A rank that names its own failure knows best; then mpirun, which saw who died first; then witnesses.
  if (fault_is_own && report.kind != Kind::kRankSignal) {
    return from_exit_code(fault->rank, fault->node, fault->exit_code, fault->reason, fault->peer);
  }
  const bool report_is_witness = report.kind == Kind::kRankExit && report.number == contract::kExitRetry;
  if (!report_is_witness || fault == nullptr) {
    if (auto verdict = from_launcher_report(evidence, report)) return *verdict;
  }
  if (fault != nullptr) {
    return from_exit_code(fault->rank, fault->node, fault->exit_code, fault->reason, fault->peer);
  }
  return from_launcher_status(evidence);
}

std::string_view cause_name(Cause cause) {
  switch (cause) {
    case Cause::kDone:
      return "done";
    case Cause::kStopped:
      return "stopped";
    case Cause::kApplicationError:
      return "application_error";
    case Cause::kKilledBySignal:
      return "killed_by_signal";
    case Cause::kPeerLost:
      return "peer_lost";
    case Cause::kNotStored:
      return "not_stored";
    case Cause::kDoNotRetry:
      return "do_not_retry";
    case Cause::kLauncherError:
      return "launcher_error";
    case Cause::kNodeFailure:
      return "node_failure";
    case Cause::kUnknown:
      break;
  }
  return "unknown";
}

std::string_view budget_name(Budget budget) {
  switch (budget) {
    case Budget::kCrash:
      return "crash";
    case Budget::kNodeFailure:
      return "node_failure";
    case Budget::kLauncherError:
      return "launcher_error";
    case Budget::kNone:
      break;
  }
  return "none";
}

json verdict_to_json(const Verdict& verdict) {
  json result = {{"cause", cause_name(verdict.cause)},
                 {"explanation", verdict.explanation},
                 {"budget", budget_name(verdict.budget)},
                 {"exit_code", verdict.exit_code}};
  if (verdict.rank >= 0) result["rank"] = verdict.rank;
  if (!verdict.node.empty()) result["node"] = verdict.node;
  return result;
}

json evidence_to_json(const Evidence& evidence) {
  static constexpr std::array<std::string_view, 6> kKillNames{
      "", "user", "stopped_early", "grace_over", "startup_timeout", "lease_lost"};
  json result = {{"world_size", evidence.world_size},
                 {"ranks_started", evidence.ranks_started},
                 {"finished", evidence.finished_event},
                 {"stop_asked", evidence.stop_asked}};
  if (evidence.exit.term_signal != 0) {
    result["launcher_signal"] = evidence.exit.term_signal;
  } else {
    result["launcher_exit_code"] = evidence.exit.exit_code;
  }
  if (evidence.killed != KillReason::kNone) {
    result["killed_by_muster"] = kKillNames.at(static_cast<std::size_t>(evidence.killed));
  }
  for (const RankFault& fault : evidence.faults) {
    json entry = {
        {"rank", fault.rank}, {"node", fault.node}, {"exit_code", fault.exit_code}, {"reason", fault.reason}};
    if (fault.peer) entry["peer"] = *fault.peer;
    result["faults"].push_back(std::move(entry));
  }
  if (!evidence.launcher_lines.empty()) result["launcher_lines"] = evidence.launcher_lines;
  return result;
}

}  // namespace muster
