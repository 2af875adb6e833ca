// The file seam: each primitive through which bytes that matter reach a disk, and the question whether a file
// is there, on which removing depends. Everything that saves takes a FileOps&, so that a test can make any
// single call fail, or be the moment of death.
// Thread safety: posix_file_ops() may be used from any thread; one File belongs to one thread at a time.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster {

class FileOps {
 public:
  virtual ~FileOps() = default;

  // Each returns what the system call of that name returns, with -errno for a failure.
  virtual int open(const std::filesystem::path& path, int flags, mode_t mode) = 0;
  virtual ssize_t write(int fd, const void* data, std::size_t bytes) = 0;
  virtual int fsync(int fd) = 0;
  virtual int close(int fd) = 0;
  virtual int rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual int mkdir(const std::filesystem::path& path, mode_t mode) = 0;
  virtual int unlink(const std::filesystem::path& path) = 0;
  virtual int rmdir(const std::filesystem::path& path) = 0;
  virtual int stat(const std::filesystem::path& path, struct stat& info) = 0;
};

FileOps& posix_file_ops();

// Makes a call of FileOps again for as long as a signal interrupts it. Not for close(): after EINTR the
// descriptor is gone.
template <class Call>
auto uninterrupted(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result != -EINTR) return result;
  }
}

// Whether there is a file (of any kind) of that name. "It could not be found out" is an error, not a no: what
// is taken for missing may be removed, or made anew.
Result<bool> file_exists(FileOps& ops, const std::filesystem::path& path);

// Writes a new file and fsyncs it. Fails if the file exists. On failure no file is left (as far as the disk
// lets us).
Status write_new_file(FileOps& ops, const std::filesystem::path& path, std::span<const std::byte> bytes,
                      mode_t mode = 0644);

// fsyncs a directory (an empty path is the working directory), so that the names in it survive a power loss.
Status sync_directory(FileOps& ops, const std::filesystem::path& directory);

// Renames and fsyncs the parent directory of `to`.
Status rename_durably(FileOps& ops, const std::filesystem::path& from, const std::filesystem::path& to);

// Replaces (or creates) a file so that a reader sees the old bytes or the new ones, never a mixture:
// temporary name, fsync, rename, fsync of the directory. Failures name `path`.
Status publish_file(FileOps& ops, const std::filesystem::path& path, std::string_view text,
                    mode_t mode = 0644);

// Removes a directory tree through the seam. A path that is not there is no error.
Status remove_tree(FileOps& ops, const std::filesystem::path& path);

// mkdir -p through the seam.
Status make_directories(FileOps& ops, const std::filesystem::path& path, mode_t mode = 0755);

Result<std::string> read_text_file(const std::filesystem::path& path);

inline std::span<const std::byte> as_byte_span(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// ENOSPC and EDQUOT are kNoSpace, EACCES, EPERM and EROFS kDenied, ENOENT is kNotFound, EEXIST is
// kAlreadyExists, the rest kIo.
ErrorCode error_code_of_errno(int error_number);
std::string errno_text(int error_number);

}  // namespace muster
