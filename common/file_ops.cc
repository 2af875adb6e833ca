#include "common/file_ops.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

namespace muster {
namespace {

namespace fs = std::filesystem;

template <class T>
T or_errno(T result) {
  return result >= 0 ? result : static_cast<T>(-errno);
}

class PosixFileOps final : public FileOps {
 public:
  int open(const fs::path& path, int flags, mode_t mode) override {
    return or_errno(::open(path.c_str(), flags | O_CLOEXEC, mode));
  }
  ssize_t write(int fd, const void* data, std::size_t bytes) override {
    return or_errno(::write(fd, data, bytes));
  }
  int fsync(int fd) override { return or_errno(::fsync(fd)); }
  int close(int fd) override { return or_errno(::close(fd)); }
  int rename(const fs::path& from, const fs::path& to) override {
    return or_errno(::rename(from.c_str(), to.c_str()));
  }
  int mkdir(const fs::path& path, mode_t mode) override { return or_errno(::mkdir(path.c_str(), mode)); }
  int unlink(const fs::path& path) override { return or_errno(::unlink(path.c_str())); }
  int rmdir(const fs::path& path) override { return or_errno(::rmdir(path.c_str())); }
  int stat(const fs::path& path, struct stat& info) override { return or_errno(::stat(path.c_str(), &info)); }
};

tl::unexpected<Error> system_failure(std::string_view what, const fs::path& path, int negative_errno) {
  return fail(error_code_of_errno(-negative_errno), "cannot {} {}: {}", what, path.string(),
              errno_text(-negative_errno));
}

Status write_all(FileOps& ops, int fd, const fs::path& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = uninterrupted([&] { return ops.write(fd, bytes.data(), bytes.size()); });
    if (written < 0) return system_failure("write", path, static_cast<int>(written));
    if (written == 0) return fail(ErrorCode::kIo, "cannot write {}: nothing was written", path.string());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status sync_fd(FileOps& ops, int fd, const fs::path& path) {
  const int result = uninterrupted([&] { return ops.fsync(fd); });
  if (result < 0) return system_failure("fsync", path, result);
  return {};
}

// Failures name `known_as`, the file that is meant.
Status write_file_known_as(const fs::path& known_as, FileOps& ops, const fs::path& path,
                           std::span<const std::byte> bytes, mode_t mode) {
  const int fd = uninterrupted([&] { return ops.open(path, O_WRONLY | O_CREAT | O_EXCL, mode); });
  if (fd < 0) return system_failure("create", known_as, fd);
  Status status = write_all(ops, fd, known_as, bytes);
  if (status) status = sync_fd(ops, fd, known_as);
  // After close() fails the descriptor is gone on Linux; the data's fate was decided by fsync.
  const int closed = ops.close(fd);
  if (status && closed < 0 && closed != -EINTR) status = system_failure("close", known_as, closed);
  if (!status) uninterrupted([&] { return ops.unlink(path); });
  return status;
}

}  // namespace

FileOps& posix_file_ops() {
  static PosixFileOps ops;
  return ops;
}

ErrorCode error_code_of_errno(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kNoSpace;
    case ENOENT:
      return ErrorCode::kNotFound;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kDenied;
    default:
      return ErrorCode::kIo;
  }
}

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

Result<bool> file_exists(FileOps& ops, const fs::path& path) {
  struct stat info {};
  const int result = uninterrupted([&] { return ops.stat(path, info); });
  if (result >= 0) return true;
  if (result == -ENOENT || result == -ENOTDIR) return false;
  return system_failure("look for", path, result);
}

Status write_new_file(FileOps& ops, const fs::path& path, std::span<const std::byte> bytes, mode_t mode) {
  return write_file_known_as(path, ops, path, bytes, mode);
}

Status sync_directory(FileOps& ops, const fs::path& named) {
  const fs::path directory = named.empty() ? "." : named;  // the parent of a bare file name
  const int fd = uninterrupted([&] { return ops.open(directory, O_RDONLY | O_DIRECTORY, 0); });
  if (fd < 0) return system_failure("open directory", directory, fd);
  Status status = sync_fd(ops, fd, directory);
  ops.close(fd);
  return status;
}

Status rename_durably(FileOps& ops, const fs::path& from, const fs::path& to) {
  const int result = uninterrupted([&] { return ops.rename(from, to); });
  if (result < 0) {
    return fail(error_code_of_errno(-result), "cannot rename {} to {}: {}", from.string(), to.string(),
                errno_text(-result));
  }
  return sync_directory(ops, to.parent_path());
}

Status publish_file(FileOps& ops, const fs::path& path, std::string_view text, mode_t mode) {
  static std::atomic<unsigned> counter{0};
  fs::path temporary = path;
  temporary += fmt::format(".tmp-{}-{}", ::getpid(), counter.fetch_add(1));
  MUSTER_TRY(write_file_known_as(path, ops, temporary, as_byte_span(text), mode));
  const int renamed = uninterrupted([&] { return ops.rename(temporary, path); });
  Status status =
      renamed < 0 ? system_failure("replace", path, renamed) : sync_directory(ops, path.parent_path());
  if (!status) uninterrupted([&] { return ops.unlink(temporary); });
  return status;
}

Status remove_tree(FileOps& ops, const fs::path& path) {
  std::error_code error;
  const fs::file_status type = fs::symlink_status(path, error);
  if (type.type() == fs::file_type::not_found) return {};
  if (type.type() != fs::file_type::directory) {
    const int result = uninterrupted([&] { return ops.unlink(path); });
    if (result < 0 && result != -ENOENT) return system_failure("remove", path, result);
    return {};
  }
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) return fail(ErrorCode::kIo, "cannot list {}: {}", path.string(), error.message());
  for (const fs::path& entry : entries) MUSTER_TRY(remove_tree(ops, entry));
  const int result = uninterrupted([&] { return ops.rmdir(path); });
  if (result < 0 && result != -ENOENT) return system_failure("remove directory", path, result);
  return {};
}

Status make_directories(FileOps& ops, const fs::path& path, mode_t mode) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return {};
  MUSTER_TRY(make_directories(ops, path.parent_path(), mode));
  const int result = uninterrupted([&] { return ops.mkdir(path, mode); });
  if (result == -EEXIST && fs::is_directory(path, error)) return {};
  if (result < 0) return system_failure("create directory", path, result);
  return {};
}

Result<std::string> read_text_file(const fs::path& path) {
  // Not a stream: its iterators throw when a read fails, as it does in /proc for a process that has just
  // ended.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    return fail(error_code_of_errno(error), "cannot open {}: {}", path.string(), errno_text(error));
  }
  std::string text;
  std::array<char, 1 << 16> block;
  for (;;) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    const int error = got < 0 ? errno : 0;
    if (got <= 0) ::close(fd);
    if (error != 0)
      return fail(error_code_of_errno(error), "cannot read {}: {}", path.string(), errno_text(error));
    if (got == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace muster
