// What `muster run` shows: a progress line while it runs, a table at the end. Formatting is pure; Console is
// the thin shell that writes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/run_history.h"

namespace muster {

// 0:07, 12:34, 3:05:07, 2 d 03:05
std::string format_duration(double seconds);

// Whether a line of output is one of the trainer's events, as JSON.
bool is_event_line(std::string_view line);

// What the progress line is made of, gathered from events.
class Progress {
 public:
  void begin_attempt(int attempt, double now_s);
  // A line of rank 0's output: all there is to show of a program that sends no events.
  void add_output(std::string_view line);
  void add(const nlohmann::json& event, double now_s);

  // One line without newline, no longer than `columns` characters.
  std::string line(double now_s, std::size_t columns) const;
  // Seconds to go at the pace of this attempt, if it can be told.
  std::optional<double> eta_s() const;

 private:
  std::string step_text(std::int64_t step) const;

  int attempt_ = 0;
  double attempt_began_s_ = 0;
  std::optional<std::int64_t> step_;
  std::int64_t total_steps_ = 0;
  std::optional<std::int64_t> begun_at_;  // the step that a configured trainer begins with
  std::int64_t epoch_ = 0;
  std::optional<double> loss_;
  std::optional<double> samples_per_s_;
  std::optional<double> accuracy_;
  std::optional<std::int64_t> first_step_;  // of this attempt, and when it was seen
  double first_step_s_ = 0;
  double step_s_ = 0;
  std::string last_output_;
};

struct RunOutcome {
  std::string run_id;
  std::string state;
  int exit_code = 0;
  RunHistory history;
  std::string explanation;  // of the verdict
  std::string command;      // that goes on with the run
  std::string journal;
  std::string logs;      // the last attempt's directory
  int failed_rank = -1;  // -1: none, or the launcher
  std::string failed_log;
  std::vector<std::string> failed_output;  // its last lines
};

// The table at the end of a run, newline-terminated.
std::string format_outcome(const RunOutcome& outcome);

enum class OutputMode { kNormal, kQuiet, kJson };

// Normal: notices and the progress line on standard error (redrawn on a terminal, else a line every few
// seconds), the table on standard output. Quiet: only errors and the result. JSON: the journal's events on
// standard output as they are written, nothing else but errors.
class Console {
 public:
  explicit Console(OutputMode mode);

  OutputMode mode() const { return mode_; }
  void notice(const std::string& text);   // "muster: …"
  void problem(const std::string& text);  // also when quiet
  void event(const nlohmann::json& event);
  // Draws if it is time to; `now_s` is any steady clock.
  void progress(const Progress& progress, double now_s);
  void outcome(const RunOutcome& outcome);
  // How often progress() should be called.
  double interval_s() const { return terminal_ ? 0.2 : 1.0; }

 private:
  void clear_line();
  OutputMode mode_;
  bool terminal_ = false;
  bool line_shown_ = false;
  std::optional<double> last_drawn_s_;
  std::string last_line_;
};

}  // namespace muster
