#include "common/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/clock.h"
#include "common/file_ops.h"

namespace muster {
namespace {

using nlohmann::json;

// Bytes of `text` up to the end of its last complete, well-formed line.
std::size_t intact_length(std::string_view text) {
  const std::size_t last_newline = text.rfind('\n');
  if (last_newline == std::string_view::npos) return 0;
  const std::size_t previous =
      last_newline == 0 ? std::string_view::npos : text.rfind('\n', last_newline - 1);
  const std::size_t begin = previous == std::string_view::npos ? 0 : previous + 1;
  const std::string_view last_line = text.substr(begin, last_newline - begin);
  return json::accept(last_line) ? last_newline + 1 : begin;
}

}  // namespace

JournalWriter::JournalWriter(JournalWriter&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

JournalWriter& JournalWriter::operator=(JournalWriter&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

JournalWriter::~JournalWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Result<JournalWriter> JournalWriter::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return fail(error_code_of_errno(errno), "cannot open {}: {}", path.string(), errno_text(errno));
  JournalWriter writer(fd);
  MUSTER_ASSIGN(const std::string text, read_text_file(path));
  const std::size_t intact = intact_length(text);
  if (intact < text.size() && ::ftruncate(fd, static_cast<off_t>(intact)) != 0) {
    return fail(ErrorCode::kIo, "cannot cut the torn last line off {}: {}", path.string(), errno_text(errno));
  }
  return writer;
}

Status JournalWriter::append(json event, bool durable) {
  if (!event.contains("time")) event["time"] = iso8601_utc(unix_time_s());
  // Text from a program's output may not be UTF-8; a journal line always is.
  const std::string line = event.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return fail(error_code_of_errno(errno), "cannot append to the journal: {}", errno_text(errno));
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (durable && ::fdatasync(fd_) != 0) {
    return fail(error_code_of_errno(errno), "cannot sync the journal: {}", errno_text(errno));
  }
  return {};
}

Result<JournalContents> parse_journal(std::string_view text, std::string_view name) {
  JournalContents contents;
  const std::size_t intact = intact_length(text);
  contents.torn = intact < text.size();
  int line_number = 0;
  for (std::size_t begin = 0; begin < intact;) {
    const std::size_t end = text.find('\n', begin);
    ++line_number;
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    json event = json::parse(line, nullptr, false);
    if (!event.is_object()) {
      return fail(ErrorCode::kCorrupt, "{}:{}: not a JSON object", name, line_number);
    }
    contents.events.push_back(std::move(event));
  }
  return contents;
}

Result<JournalContents> read_journal(const std::filesystem::path& path) {
  MUSTER_ASSIGN(const std::string text, read_text_file(path));
  return parse_journal(text, path.string());
}

}  // namespace muster
