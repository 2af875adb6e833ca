// A file seam that does what the real one does: the base of those that change single calls.
#pragma once

#include "common/file_ops.h"

namespace muster::testing {

class ForwardingFileOps : public FileOps {
 public:
  int open(const std::filesystem::path& path, int flags, mode_t mode) override {
    return base_.open(path, flags, mode);
  }
  ssize_t write(int fd, const void* data, std::size_t bytes) override { return base_.write(fd, data, bytes); }
  int fsync(int fd) override { return base_.fsync(fd); }
  int close(int fd) override { return base_.close(fd); }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return base_.rename(from, to);
  }
  int mkdir(const std::filesystem::path& path, mode_t mode) override { return base_.mkdir(path, mode); }
  int unlink(const std::filesystem::path& path) override { return base_.unlink(path); }
  int rmdir(const std::filesystem::path& path) override { return base_.rmdir(path); }
  int stat(const std::filesystem::path& path, struct stat& info) override { return base_.stat(path, info); }

 private:
  FileOps& base_ = posix_file_ops();
};

}  // namespace muster::testing
