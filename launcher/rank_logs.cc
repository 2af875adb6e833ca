#include "launcher/rank_logs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/file_ops.h"

namespace muster {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
constexpr std::size_t kTailLineBytesMax = 1000;

}  // namespace

Result<RankLogs> RankLogs::open(const std::filesystem::path& directory, std::uint64_t bytes_max) {
  MUSTER_TRY(make_directories(posix_file_ops(), directory));
  return RankLogs(directory, std::max<std::uint64_t>(bytes_max, 1));
}

std::filesystem::path RankLogs::path_of(int rank) const {
  return directory_ / (rank < 0 ? std::string("launcher.log") : "rank-" + std::to_string(rank) + ".log");
}

void RankLogs::write(int rank, std::string_view line, Reader reader) {
  Log& log = logs_[rank];
  if (reader == Reader::kPerson) log.tail.emplace_back(line.substr(0, kTailLineBytesMax));
  if (log.tail.size() > kTailLines) log.tail.pop_front();
  if (log.bytes + log.buffer.size() + line.size() + 1 > bytes_max_) {
    flush(rank, log);
    if (log.bytes > 0) log.fd.reset();  // full: the next flush begins a new file
  }
  log.buffer.append(line);
  log.buffer.push_back('\n');
  if (log.buffer.size() >= kBufferBytes) flush(rank, log);
}

void RankLogs::flush() {
  for (auto& [rank, log] : logs_) flush(rank, log);
}

bool RankLogs::reopen(int rank, Log& log) {
  const std::filesystem::path path = path_of(rank);
  if (log.bytes > 0) {
    std::filesystem::path older = path;
    older += ".1";
    if (::rename(path.c_str(), older.c_str()) != 0 && error_.empty()) {
      error_ = fmt::format("cannot rename {}: {}", path.string(), errno_text(errno));
    }
  }
  log.fd.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  struct stat info {};
  log.bytes = log.fd && ::fstat(log.fd.get(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
  if (!log.fd && error_.empty()) error_ = fmt::format("cannot open {}: {}", path.string(), errno_text(errno));
  return static_cast<bool>(log.fd);
}

void RankLogs::flush(int rank, Log& log) {
  if (log.buffer.empty()) return;
  std::string_view rest = log.buffer;
  while (!rest.empty() && (log.fd || reopen(rank, log))) {
    const ssize_t written = ::write(log.fd.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (error_.empty())
        error_ = fmt::format("cannot write {}: {}", path_of(rank).string(), errno_text(errno));
      break;
    }
    log.bytes += static_cast<std::uint64_t>(written);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  log.buffer.clear();
}

std::vector<std::string> RankLogs::tail(int rank) const {
  const auto log = logs_.find(rank);
  if (log == logs_.end()) return {};
  return {log->second.tail.begin(), log->second.tail.end()};
}

}  // namespace muster
