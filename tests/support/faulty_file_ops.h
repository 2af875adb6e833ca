// A file seam that fails, dies or loses power at a chosen call. Every primitive counts as one call; calls are
// numbered from 1 across all threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "common/file_ops.h"

namespace muster::testing {

class FaultyFileOps final : public FileOps {
 public:
  enum class Mode {
    kNone,
    kErrorOnce,   // that call fails without effect; later ones work
    kShortWrite,  // if that call is a write, it writes half (at least a byte); the error number is not used
    kDiskFull,    // from that call on, whatever needs space fails; removing works
    kDeath        // that call and all later ones have no effect (a write gets half way): the process is gone
  };

  FaultyFileOps() = default;
  FaultyFileOps(Mode mode, int at_call, int error_number)
      : mode_(mode), at_call_(at_call), error_number_(error_number) {}
  FaultyFileOps(const FaultyFileOps&) = delete;
  FaultyFileOps& operator=(const FaultyFileOps&) = delete;
  ~FaultyFileOps() override;

  int calls() const;
  // Runs before each open, with its path.
  void before_open(std::function<void(const std::filesystem::path&)> hook) { before_open_ = std::move(hook); }

  // Takes back what was done through this object and not made durable by fsync: the contents of files, and
  // names that were created, renamed or removed: a file system may have kept all of these, none, or some.
  enum class Names { kKept, kLost, kSome };
  void lose_power(Names names, unsigned seed);

  int open(const std::filesystem::path& path, int flags, mode_t mode) override;
  ssize_t write(int fd, const void* data, std::size_t bytes) override;
  int fsync(int fd) override;
  int close(int fd) override;
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  int mkdir(const std::filesystem::path& path, mode_t mode) override;
  int unlink(const std::filesystem::path& path) override;
  int rmdir(const std::filesystem::path& path) override;
  int stat(const std::filesystem::path& path, struct stat& info) override;

 private:
  // A name in a directory, found again even if the directory is renamed.
  struct Place {
    int directory_fd = -1;
    std::uint64_t directory_inode = 0;
    std::string name;
  };
  struct NameChange {
    enum class Kind { kCreated, kMadeDirectory, kRenamed, kRemoved, kRemovedDirectory };
    Kind kind = Kind::kCreated;
    Place place;               // of the name now (kRenamed: the new one)
    Place from;                // kRenamed
    bool had_content = false;  // a file was removed or replaced
    std::string content;       // its bytes
  };
  struct Written {
    int fd = -1;      // the caller's, or -1 once closed
    int own_fd = -1;  // stays open
    std::int64_t durable_bytes = 0;
  };

  bool faulty(bool needs_space);
  Place place_of(const std::filesystem::path& path);
  void note_removal(NameChange& change, const std::filesystem::path& path);
  static void undo(const NameChange& change);

  mutable std::mutex mutex_;
  Mode mode_ = Mode::kNone;
  int at_call_ = 0;
  int error_number_ = 0;
  int calls_ = 0;
  std::function<void(const std::filesystem::path&)> before_open_;
  std::vector<NameChange> names_;  // not durable yet, in order
  std::vector<Written> written_;
  std::vector<int> directory_fds_;
};

}  // namespace muster::testing
