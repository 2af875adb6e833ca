// A file seam whose N-th call fails, for rising N: every way in which a disk can refuse is tried once.
#pragma once

#include "common/file_ops.h"

namespace muster::testing {

class FailingFileOps final : public FileOps {
 public:
  // fail_at: number of the call that fails, from 1; 0: none. Calls that undo (unlink, rmdir, close) work, so
  // that what a failure leaves behind is the code's doing.
  FailingFileOps(int fail_at, int error_number) : fail_at_(fail_at), error_number_(error_number) {}

  int calls() const { return calls_; }

  int open(const std::filesystem::path& path, int flags, mode_t mode) override {
    return fails() ? -error_number_ : posix_file_ops().open(path, flags, mode);
  }
  ssize_t write(int fd, const void* data, std::size_t bytes) override {
    return fails() ? -error_number_ : posix_file_ops().write(fd, data, bytes);
  }
  int fsync(int fd) override { return fails() ? -error_number_ : posix_file_ops().fsync(fd); }
  int close(int fd) override { return posix_file_ops().close(fd); }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return fails() ? -error_number_ : posix_file_ops().rename(from, to);
  }
  int mkdir(const std::filesystem::path& path, mode_t mode) override {
    return fails() ? -error_number_ : posix_file_ops().mkdir(path, mode);
  }
  int unlink(const std::filesystem::path& path) override { return posix_file_ops().unlink(path); }
  int rmdir(const std::filesystem::path& path) override { return posix_file_ops().rmdir(path); }

 private:
  bool fails() { return ++calls_ == fail_at_; }
  int calls_ = 0;
  int fail_at_;
  int error_number_;
};

}  // namespace muster::testing
