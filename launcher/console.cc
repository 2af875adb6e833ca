// Console: where `muster run` writes, and how often.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "launcher/progress.h"

namespace muster {
namespace {

constexpr double kTerminalInterval_s = 0.2;
constexpr double kPlainInterval_s = 5.0;
constexpr std::size_t kPlainColumns = 200;

// A terminal or pipe that is gone must not end the run: what cannot be written is dropped.
void put(std::FILE* out, const std::string& text) {
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : 79U;
}

}  // namespace

Console::Console(OutputMode mode) : mode_(mode), terminal_(::isatty(STDERR_FILENO) == 1) {}

void Console::clear_line() {
  if (line_shown_) put(stderr, "\r\x1b[K");
  line_shown_ = false;
}

void Console::notice(const std::string& text) {
  if (mode_ == OutputMode::kNormal) problem(text);
}

void Console::problem(const std::string& text) {
  clear_line();
  put(stderr, fmt::format("muster: {}\n", text));
}

void Console::event(const nlohmann::json& event) {
  if (mode_ != OutputMode::kJson) return;
  put(stdout, event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void Console::progress(const Progress& progress, double now_s) {
  if (mode_ != OutputMode::kNormal) return;
  const double interval_s = terminal_ ? kTerminalInterval_s : kPlainInterval_s;
  if (last_drawn_s_ && now_s - *last_drawn_s_ < interval_s) return;
  last_drawn_s_ = now_s;
  const std::string line = progress.line(now_s, terminal_ ? terminal_columns() : kPlainColumns);
  if (terminal_) {
    put(stderr, "\r\x1b[K" + line);
    line_shown_ = true;
  } else if (line != last_line_) {
    put(stderr, fmt::format("muster: {}\n", line));
  }
  last_line_ = line;
}

void Console::outcome(const RunOutcome& outcome) {
  if (mode_ == OutputMode::kJson) return;  // run_ended has told it
  clear_line();
  put(outcome.state != "done" && mode_ == OutputMode::kQuiet ? stderr : stdout, format_outcome(outcome));
}

}  // namespace muster
