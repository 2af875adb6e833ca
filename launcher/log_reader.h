// Reads the output of one attempt while the supervisor writes it (rank_logs.h): FILE.1 before FILE, on from
// one file to the next when FILE is rotated away, and new ranks' files as they appear. Only whole lines are
// handed out, but for what stands at the very end.
// Never blocks. One object belongs to one thread.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/unique_fd.h"

namespace muster {

// One log across its rotations.
class LogFile {
 public:
  using LineSink = std::function<void(std::string_view line)>;

  explicit LogFile(std::filesystem::path path);
  // Hands out what is new. False if there was nothing.
  bool read(const LineSink& sink);
  // Hands out a last line that has no newline.
  void finish(const LineSink& sink);

 private:
  bool read_to_end(const LineSink& sink);
  bool rotated() const;

  std::filesystem::path path_;
  UniqueFd older_;  // FILE.1, until it is read
  UniqueFd fd_;
  std::string partial_;
};

inline constexpr int kLauncherLog = -1;  // launcher.log, among the ranks

class AttemptLogs {
 public:
  using LineSink = std::function<void(int rank, std::string_view line)>;

  // rank: only this one's; empty: all, and the launcher's.
  AttemptLogs(std::filesystem::path directory, std::optional<int> rank)
      : directory_(std::move(directory)), rank_(rank) {}
  bool read(const LineSink& sink);
  void finish(const LineSink& sink);

 private:
  void find_new_files();

  std::filesystem::path directory_;
  std::optional<int> rank_;
  std::map<int, LogFile> files_;
};

// Numbers of the attempts that have logs below <run>/logs, ascending.
std::vector<int> attempts_with_logs(const std::filesystem::path& logs);

}  // namespace muster
