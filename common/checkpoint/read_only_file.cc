#include "common/checkpoint/read_only_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "common/file_ops.h"
#include "common/sha256.h"

namespace muster::checkpoint {
namespace {

constexpr std::int64_t kBlockBytes = 1 << 20;

}  // namespace

ReadOnlyFile::ReadOnlyFile(ReadOnlyFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

ReadOnlyFile& ReadOnlyFile::operator=(ReadOnlyFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

ReadOnlyFile::~ReadOnlyFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<ReadOnlyFile> ReadOnlyFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return fail(error_code_of_errno(errno), "cannot open {}: {}", path.string(), errno_text(errno));
  }
  return ReadOnlyFile(fd, path);
}

Result<std::int64_t> ReadOnlyFile::size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0)
    return fail(ErrorCode::kIo, "cannot stat {}: {}", path_.string(), errno_text(errno));
  return info.st_size;
}

Result<std::string> ReadOnlyFile::read(std::int64_t offset, std::int64_t bytes, const Sink& sink) const {
  Sha256 hash;
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(bytes, kBlockBytes)));
  for (std::int64_t at = 0; at < bytes;) {
    const auto wanted = static_cast<std::size_t>(std::min(bytes - at, kBlockBytes));
    const ssize_t got = ::pread(fd_, block.data(), wanted, offset + at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(ErrorCode::kIo, "cannot read {} at offset {}: {}", path_.string(), offset + at,
                  errno_text(errno));
    }
    if (got == 0) return fail(ErrorCode::kCorrupt, "{} ends at offset {}", path_.string(), offset + at);
    const std::span<const std::byte> part(block.data(), static_cast<std::size_t>(got));
    hash.update(part.data(), part.size());
    sink(at, part);
    at += got;
  }
  return hash.hex_digest();
}

Result<std::string> ReadOnlyFile::sha256(std::int64_t offset, std::int64_t bytes) const {
  return read(offset, bytes, [](std::int64_t, std::span<const std::byte>) {});
}

}  // namespace muster::checkpoint
