#include "launcher/progress.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "common/json_fields.h"
#include "common/run_contract.h"

namespace muster {
namespace {

using nlohmann::json;
namespace name = contract::event;

void set_if_there(std::optional<double>& value, const json& event, const char* field) {
  const auto member = event.find(field);
  if (member != event.end() && member->is_number()) value = member->get<double>();
}

// Cuts between characters, not within one (UTF-8).
std::string cut(const std::string& text, std::size_t columns) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins_character = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (begins_character && count++ == columns) return text.substr(0, i);
  }
  return text;
}

// A program's output may hold anything; what reaches the terminal is harmless.
std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return result;
}

std::string shown(const json& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

class Table {
 public:
  void add(std::string_view label, const std::string& value) {
    if (!value.empty()) text_ += fmt::format("  {:<17} {}\n", label, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_results(Table& table, const RunHistory& history) {
  if (history.result && history.result->is_object()) {
    for (const auto& [key, value] : history.result->items()) {
      if (!value.is_structured() && !value.is_null()) table.add(key, shown(value));
    }
    return;
  }
  if (history.loss) table.add("loss", fmt::format("{:.4f}", *history.loss));
  if (history.accuracy) table.add("accuracy", fmt::format("{:.2f} %", 100 * *history.accuracy));
}

}  // namespace

std::string format_duration(double seconds) {
  const auto total = static_cast<std::int64_t>(std::llround(std::max(seconds, 0.0)));
  const std::int64_t minutes = total / 60;
  const std::int64_t hours = minutes / 60;
  if (hours >= 48) return fmt::format("{} d {:02}:{:02}", hours / 24, hours % 24, minutes % 60);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes % 60, total % 60);
  return fmt::format("{}:{:02}", minutes, total % 60);
}

bool is_event_line(std::string_view line) {
  if (!line.starts_with("{\"")) return false;
  const json event = json::parse(line, nullptr, false);
  return event.is_object() && event.contains("event") && event.at("event").is_string();
}

void Progress::begin_attempt(int attempt, double now_s) {
  *this = Progress();
  attempt_ = attempt;
  attempt_began_s_ = now_s;
}

void Progress::add_output(std::string_view line) {
  constexpr std::size_t kMax = 200;
  if (!line.empty()) last_output_ = printable(line.substr(0, kMax));
}

void Progress::add(const json& event, double now_s) {
  const std::string kind = text_field(event, "event");
  if (kind == name::kStep) {
    step_ = integer_field(event, "step", 0);
    step_s_ = now_s;
    if (!first_step_) {
      first_step_ = step_;
      first_step_s_ = now_s;
    }
    total_steps_ = integer_field(event, "total_steps", total_steps_);
    epoch_ = integer_field(event, "epoch", epoch_);
    set_if_there(loss_, event, "loss");
    set_if_there(samples_per_s_, event, "samples_per_s");
  } else if (kind == name::kEvaluation) {
    set_if_there(accuracy_, event, "accuracy");
  } else if (kind == name::kConfiguration) {
    total_steps_ = integer_field(event, "total_steps", total_steps_);
    begun_at_ = 0;
  } else if (kind == name::kResumed) {
    begun_at_ = integer_field(event, "step", 0);
  }
}

std::optional<double> Progress::eta_s() const {
  if (!step_ || !first_step_ || *step_ <= *first_step_ || total_steps_ <= *step_) return std::nullopt;
  const double seconds_per_step = (step_s_ - first_step_s_) / static_cast<double>(*step_ - *first_step_);
  return seconds_per_step * static_cast<double>(total_steps_ - *step_);
}

std::string Progress::step_text(std::int64_t step) const {
  if (total_steps_ <= 0) return fmt::format("step {}", step);
  return fmt::format("step {}/{} ({} %)", step, total_steps_, step * 100 / total_steps_);
}

std::string Progress::line(double now_s, std::size_t columns) const {
  std::vector<std::string> parts;
  if (attempt_ > 1) parts.push_back(fmt::format("attempt {}", attempt_));
  if (step_) {
    parts.push_back(fmt::format("epoch {}", epoch_));
    parts.push_back(step_text(*step_));
    if (loss_) parts.push_back(fmt::format("loss {:.4f}", *loss_));
    if (accuracy_) parts.push_back(fmt::format("accuracy {:.2f} %", 100 * *accuracy_));
    if (samples_per_s_) parts.push_back(fmt::format("{:.0f} samples/s", *samples_per_s_));
    if (const auto eta = eta_s()) parts.push_back("ETA " + format_duration(*eta));
  } else {
    parts.push_back(fmt::format("running {}", format_duration(now_s - attempt_began_s_)));
    if (begun_at_) parts.push_back(step_text(*begun_at_) + ", none reported yet");
    if (!begun_at_ && !last_output_.empty()) parts.push_back("rank 0: " + last_output_);
  }
  return cut(fmt::format("{}", fmt::join(parts, " · ")), columns);
}

// What is kept of a run that was asked to stop, and how it goes on.
std::string stop_text(const RunOutcome& outcome) {
  const RunHistory& history = outcome.history;
  const bool in_order = outcome.exit_code == contract::kMusterStopped;
  const bool saved = history.stop_step && history.committed_step >= *history.stop_step;
  std::string text = in_order ? "stopped as asked" : outcome.state;
  if (!in_order || !saved) text += fmt::format(" ({})", printable(outcome.explanation));
  if (saved) {
    text += fmt::format("; saved at step {}", history.committed_step);
  } else if (history.committed_step >= 0) {
    text += fmt::format("; the last checkpoint is of step {}", history.committed_step);
  }
  return text + fmt::format("; continue with: {}\n", printable(outcome.command));
}

std::string format_outcome(const RunOutcome& outcome) {
  const RunHistory& history = outcome.history;
  Table table;
  table.add("run", outcome.run_id);
  add_results(table, history);
  if (history.last_step >= 0) table.add("steps", std::to_string(history.last_step));
  table.add("attempts", std::to_string(history.attempts));
  table.add("wall time", format_duration(history.wall_s));
  table.add("checkpoint", history.last_checkpoint);
  table.add("journal", outcome.journal);
  table.add("logs", outcome.logs);
  std::string text = fmt::format("muster: {}\n", outcome.state) + table.text();
  if (outcome.state == "done") return text;
  const bool in_order = outcome.exit_code == contract::kMusterStopped;
  const bool was_asked = in_order || outcome.exit_code == contract::kMusterKilled;
  text += was_asked && outcome.state != "failed" ? "\n" + stop_text(outcome)
                                                 : fmt::format("\nwhy: {}\n", printable(outcome.explanation));
  // An mpirun that muster ends complains, or even crashes, which would only mislead.
  const bool ended_by_muster = was_asked || outcome.exit_code == contract::kMusterLeaseHeld;
  const bool misleads = in_order || (ended_by_muster && outcome.failed_rank < 0);
  if (!misleads && !outcome.failed_output.empty()) {
    text +=
        fmt::format("last lines of {} ({}):\n",
                    outcome.failed_rank < 0 ? "the launcher" : fmt::format("rank {}", outcome.failed_rank),
                    outcome.failed_log);
    for (const std::string& line : outcome.failed_output) text += "  | " + printable(line) + "\n";
  }
  text += fmt::format("exit code: {}\n", outcome.exit_code);
  return text;
}

}  // namespace muster
