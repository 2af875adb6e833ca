#include "tests/support/faulty_file_ops.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <stdexcept>

namespace muster::testing {

namespace fs = std::filesystem;

FaultyFileOps::~FaultyFileOps() {
  for (const int fd : directory_fds_) ::close(fd);
  for (const Written& written : written_) ::close(written.own_fd);
}

int FaultyFileOps::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

bool FaultyFileOps::faulty(bool needs_space) {
  ++calls_;
  switch (mode_) {
    case Mode::kErrorOnce:
      return calls_ == at_call_;
    case Mode::kDiskFull:
      return needs_space && calls_ >= at_call_;
    case Mode::kDeath:
      return calls_ >= at_call_;
    case Mode::kShortWrite:
    case Mode::kNone:
      break;
  }
  return false;
}

FaultyFileOps::Place FaultyFileOps::place_of(const fs::path& path) {
  const int fd = ::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0) throw std::runtime_error("no directory of " + path.string());
  directory_fds_.push_back(fd);
  return {fd, info.st_ino, path.filename().string()};
}

void FaultyFileOps::note_removal(NameChange& change, const fs::path& path) {
  const auto content = read_text_file(path);
  change.had_content = content.has_value();
  change.content = content.value_or("");
}

int FaultyFileOps::open(const fs::path& path, int flags, mode_t mode) {
  if (before_open_) before_open_(path);
  const std::lock_guard lock(mutex_);
  const bool creates = (flags & O_CREAT) != 0;
  if (faulty(creates)) return -error_number_;
  const int fd = posix_file_ops().open(path, flags, mode);
  if (fd >= 0 && creates) {
    names_.push_back({NameChange::Kind::kCreated, place_of(path), {}, false, ""});
    written_.push_back({fd, ::fcntl(fd, F_DUPFD_CLOEXEC, 0), 0});
  }
  return fd;
}

ssize_t FaultyFileOps::write(int fd, const void* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool fails = faulty(true);
  if (mode_ == Mode::kShortWrite && calls_ == at_call_) bytes = (bytes + 1) / 2;
  if (!fails) return posix_file_ops().write(fd, data, bytes);
  // The moment of death may come in the middle of a write.
  if (mode_ == Mode::kDeath && calls_ == at_call_) posix_file_ops().write(fd, data, bytes / 2);
  return -error_number_;
}

int FaultyFileOps::fsync(int fd) {
  const std::lock_guard lock(mutex_);
  if (faulty(false)) return -error_number_;
  struct stat info {};
  if (::fstat(fd, &info) != 0) return -EBADF;
  if (S_ISDIR(info.st_mode)) {
    std::erase_if(names_,
                  [&](const NameChange& change) { return change.place.directory_inode == info.st_ino; });
  }
  for (Written& written : written_) {
    if (written.fd == fd) written.durable_bytes = info.st_size;
  }
  return 0;  // durability is kept account of here; the real disk need not be waited for
}

int FaultyFileOps::close(int fd) {
  const std::lock_guard lock(mutex_);
  for (Written& written : written_) {
    if (written.fd == fd) written.fd = -1;
  }
  // Closed in any case: a descriptor is gone even if close(2) fails, or if the process does.
  const bool fails = faulty(false);
  const int result = posix_file_ops().close(fd);
  return fails ? -error_number_ : result;
}

int FaultyFileOps::rename(const fs::path& from, const fs::path& to) {
  const std::lock_guard lock(mutex_);
  if (faulty(true)) return -error_number_;
  NameChange change{NameChange::Kind::kRenamed, place_of(to), place_of(from), false, ""};
  note_removal(change, to);
  const int result = posix_file_ops().rename(from, to);
  if (result >= 0) names_.push_back(std::move(change));
  return result;
}

int FaultyFileOps::mkdir(const fs::path& path, mode_t mode) {
  const std::lock_guard lock(mutex_);
  if (faulty(true)) return -error_number_;
  const int result = posix_file_ops().mkdir(path, mode);
  if (result >= 0) names_.push_back({NameChange::Kind::kMadeDirectory, place_of(path), {}, false, ""});
  return result;
}

int FaultyFileOps::unlink(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  if (faulty(false)) return -error_number_;
  NameChange change{NameChange::Kind::kRemoved, place_of(path), {}, false, ""};
  note_removal(change, path);
  const int result = posix_file_ops().unlink(path);
  if (result >= 0) names_.push_back(std::move(change));
  return result;
}

int FaultyFileOps::rmdir(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  if (faulty(false)) return -error_number_;
  NameChange change{NameChange::Kind::kRemovedDirectory, place_of(path), {}, false, ""};
  const int result = posix_file_ops().rmdir(path);
  if (result >= 0) names_.push_back(std::move(change));
  return result;
}

int FaultyFileOps::stat(const fs::path& path, struct stat& info) {
  const std::lock_guard lock(mutex_);
  if (faulty(false)) return -error_number_;
  return posix_file_ops().stat(path, info);
}

void FaultyFileOps::undo(const NameChange& change) {
  const Place& place = change.place;
  switch (change.kind) {
    case NameChange::Kind::kCreated:
      ::unlinkat(place.directory_fd, place.name.c_str(), 0);
      return;
    case NameChange::Kind::kMadeDirectory:
      // With everything in it, durable or not: what no name leads to is lost.
      fs::remove_all(fmt::format("/proc/self/fd/{}/{}", place.directory_fd, place.name));
      return;
    case NameChange::Kind::kRemovedDirectory:
      ::mkdirat(place.directory_fd, place.name.c_str(), 0755);
      return;
    case NameChange::Kind::kRenamed:
      ::renameat(place.directory_fd, place.name.c_str(), change.from.directory_fd, change.from.name.c_str());
      break;
    case NameChange::Kind::kRemoved:
      break;
  }
  if (!change.had_content) return;
  const int fd =
      ::openat(place.directory_fd, place.name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;  // its directory is gone for good
  if (::write(fd, change.content.data(), change.content.size()) !=
      static_cast<ssize_t>(change.content.size())) {
    throw std::runtime_error("cannot bring back " + place.name);
  }
  ::close(fd);
}

void FaultyFileOps::lose_power(Names names, unsigned seed) {
  const std::lock_guard lock(mutex_);
  for (const Written& written : written_) {
    struct stat info {};
    if (::fstat(written.own_fd, &info) == 0 && info.st_size > written.durable_bytes &&
        ::ftruncate(written.own_fd, written.durable_bytes) != 0) {
      throw std::runtime_error("cannot take back what was written");
    }
  }
  std::mt19937 random(seed);
  for (auto change = names_.rbegin(); change != names_.rend(); ++change) {
    const bool lost = names == Names::kLost || (names == Names::kSome && random() % 2 == 0);
    if (lost) undo(*change);
  }
  names_.clear();
}

}  // namespace muster::testing
