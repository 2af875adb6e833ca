// The journal: one JSON object a line, append-only, one writer (the supervisor, guarded by the run's lease).
// What `status` and `list` show of a run is computed from it, run.json and the lease.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster {

class JournalWriter {
 public:
  // Opens for appending. A torn last line (the writer died in mid-write) is cut off first.
  static Result<JournalWriter> open(const std::filesystem::path& path);

  JournalWriter(JournalWriter&& other) noexcept;
  JournalWriter& operator=(JournalWriter&& other) noexcept;
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;
  ~JournalWriter();

  // Adds "time" (ISO 8601, UTC) if the event has none, and appends the line with one write(2).
  // durable: also fsync; used for what a decision after a crash depends on (verdicts, attempts, checkpoints).
  Status append(nlohmann::json event, bool durable);

 private:
  explicit JournalWriter(int fd) : fd_(fd) {}
  int fd_ = -1;
};

struct JournalContents {
  std::vector<nlohmann::json> events;
  bool torn = false;  // the last line had no newline or was no JSON, and was left out
};

// Pure. A malformed line anywhere but at the end is kCorrupt, naming the line; `name` names the text.
Result<JournalContents> parse_journal(std::string_view text, std::string_view name);

Result<JournalContents> read_journal(const std::filesystem::path& path);

}  // namespace muster
