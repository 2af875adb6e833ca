// Console: where `muster run` writes, and how often.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "launcher/progress.h"

namespace muster {
namespace {

constexpr double kPlainInterval_s = 5.0;
constexpr std::size_t kPlainColumns = 200;

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : 79U;
}

}  // namespace

Console::Console(OutputMode mode) : mode_(mode), terminal_(::isatty(STDERR_FILENO) == 1) {}

void Console::clear_line() {
  if (line_shown_) fmt::print(stderr, "\r\x1b[K");
  line_shown_ = false;
}

void Console::notice(const std::string& text) {
  if (mode_ != OutputMode::kNormal) return;
  problem(text);
}

void Console::problem(const std::string& text) {
  clear_line();
  fmt::print(stderr, "muster: {}\n", text);
  std::fflush(stderr);
}

void Console::event(const nlohmann::json& event) {
  if (mode_ != OutputMode::kJson) return;
  fmt::print("{}\n", event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
}

void Console::progress(const Progress& progress, double now_s) {
  if (mode_ != OutputMode::kNormal) return;
  const double interval_s = terminal_ ? 0.2 : kPlainInterval_s;
  if (last_drawn_s_ && now_s - *last_drawn_s_ < interval_s) return;
  last_drawn_s_ = now_s;
  const std::string line = progress.line(now_s, terminal_ ? terminal_columns() : kPlainColumns);
  if (terminal_) {
    fmt::print(stderr, "\r\x1b[K{}", line);
    line_shown_ = true;
  } else if (line != last_line_) {
    fmt::print(stderr, "muster: {}\n", line);
  }
  last_line_ = line;
  std::fflush(stderr);
}

void Console::summary(const RunOutcome& summary) {
  if (mode_ == OutputMode::kJson) return;  // run_ended has told it
  clear_line();
  const bool failed = summary.state != "done";
  fmt::print(failed && mode_ == OutputMode::kQuiet ? stderr : stdout, "{}", format_outcome(summary));
  std::fflush(stdout);
}

}  // namespace muster
