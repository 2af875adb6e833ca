// Per-rank logs of one attempt: DIR/rank-R.log and DIR/launcher.log, written by the supervisor alone.
// A file that reaches the limit becomes FILE.1 (replacing an older one), so a rank keeps at most twice the
// limit and always its newest output. The last lines of each rank stay in memory for the report of a failure.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"

namespace muster {

class RankLogs {
 public:
  static constexpr std::uint64_t kDefaultBytesMax = std::uint64_t{64} << 20;
  static constexpr std::size_t kTailLines = 20;

  // Makes the directory. bytes_max: the limit of one file.
  static Result<RankLogs> open(const std::filesystem::path& directory, std::uint64_t bytes_max);

  enum class Reader { kPerson, kProgram };
  // rank -1: the launcher. Buffered until flush(). Never fails: see error(). What is for a program to read
  // goes into the file only.
  void write(int rank, std::string_view line, Reader reader = Reader::kPerson);
  void flush();

  std::vector<std::string> tail(int rank) const;
  std::filesystem::path path_of(int rank) const;
  // The first write that failed (a full disk): output was lost, the run goes on.
  const std::string& error() const { return error_; }

 private:
  struct Log {
    UniqueFd fd;
    std::uint64_t bytes = 0;  // in the file
    std::string buffer;
    std::deque<std::string> tail;
  };
  RankLogs(std::filesystem::path directory, std::uint64_t bytes_max)
      : directory_(std::move(directory)), bytes_max_(bytes_max) {}
  void flush(int rank, Log& log);
  bool reopen(int rank, Log& log);

  std::filesystem::path directory_;
  std::uint64_t bytes_max_;
  std::map<int, Log> logs_;
  std::string error_;
};

}  // namespace muster
