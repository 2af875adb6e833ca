#include "launcher/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = std::size_t{64} << 10;

// The N in <prefix>N<suffix>.
std::optional<int> number_between(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix)) {
    return std::nullopt;
  }
  name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  int number = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || stop != name.data() + name.size() || number < 0) return std::nullopt;
  return number;
}

UniqueFd open_for_reading(const fs::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

bool same_file(int fd, const struct stat& other) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_dev == other.st_dev && info.st_ino == other.st_ino;
}

// Hands out the whole lines; what follows the last newline stays in `text`.
void take_lines(std::string& text, const LogFile::LineSink& sink) {
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    sink(std::string_view(text).substr(begin, end - begin));
  }
  text.erase(0, begin);
}

}  // namespace

LogFile::LogFile(fs::path path) : path_(std::move(path)), fd_(open_for_reading(path_)) {
  fs::path older = path_;
  older += ".1";
  older_ = open_for_reading(older);
  struct stat info {};
  // Rotated between the two opens: then both are the same file.
  if (older_ && fd_ && ::fstat(fd_.get(), &info) == 0 && same_file(older_.get(), info)) older_.reset();
}

bool LogFile::read_to_end(const LineSink& sink) {
  bool any = false;
  for (UniqueFd* source : {&older_, &fd_}) {
    std::array<char, kReadBytes> buffer{};
    while (*source) {
      const ssize_t got = ::read(source->get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      any = true;
      partial_.append(buffer.data(), static_cast<std::size_t>(got));
      take_lines(partial_, sink);
    }
    if (source == &older_) older_.reset();
  }
  return any;
}

// Whether the name now stands for another file than the one that is open.
bool LogFile::rotated() const {
  struct stat info {};
  return ::stat(path_.c_str(), &info) == 0 && !(fd_ && same_file(fd_.get(), info));
}

bool LogFile::read(const LineSink& sink) {
  bool any = read_to_end(sink);
  while (rotated()) {
    any |= read_to_end(sink);  // what was written before it was renamed
    fd_ = open_for_reading(path_);
    if (!fd_) break;
    any |= read_to_end(sink);
  }
  return any;
}

void LogFile::finish(const LineSink& sink) {
  if (!partial_.empty()) sink(std::exchange(partial_, {}));
}

void AttemptLogs::find_new_files() {
  std::error_code ignored;
  for (fs::directory_iterator it(directory_, ignored), end; !ignored && it != end; it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    const auto rank =
        name == "launcher.log" ? std::optional<int>(kLauncherLog) : number_between(name, "rank-", ".log");
    if (rank && (!rank_ || rank_ == rank) && !files_.contains(*rank)) files_.emplace(*rank, it->path());
  }
}

bool AttemptLogs::read(const LineSink& sink) {
  find_new_files();
  bool any = false;
  for (auto& entry : files_) {
    const int rank = entry.first;
    any |= entry.second.read([&](std::string_view line) { sink(rank, line); });
  }
  return any;
}

void AttemptLogs::finish(const LineSink& sink) {
  for (auto& entry : files_) {
    const int rank = entry.first;
    entry.second.finish([&](std::string_view line) { sink(rank, line); });
  }
}

std::vector<int> attempts_with_logs(const fs::path& logs) {
  std::vector<int> attempts;
  std::error_code ignored;
  for (fs::directory_iterator it(logs, ignored), end; !ignored && it != end; it.increment(ignored)) {
    const auto number = number_between(it->path().filename().string(), "attempt-", "");
    if (number) attempts.push_back(*number);
  }
  std::sort(attempts.begin(), attempts.end());
  return attempts;
}

}  // namespace muster
