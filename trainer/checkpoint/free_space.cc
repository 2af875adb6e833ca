#include "trainer/checkpoint/free_space.h"

#include <fcntl.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <optional>

#include "common/file_ops.h"
#include "common/unique_fd.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kQuotaBlockBytes = 1024;

// Nothing: it cannot be asked for.
std::optional<Quota> ask_quota(int fd, int type, unsigned id) {
  dqblk block{};
  const auto command = static_cast<unsigned>(QCMD(Q_GETQUOTA, type));
  if (::syscall(SYS_quotactl_fd, fd, command, id, &block) != 0) return std::nullopt;
  return Quota{block.dqb_bhardlimit * kQuotaBlockBytes, block.dqb_bsoftlimit * kQuotaBlockBytes,
               block.dqb_curspace, block.dqb_btime};
}

tl::unexpected<Error> unknown_space(const fs::path& directory) {
  const int error = errno;
  return fail(error_code_of_errno(error), "cannot tell the free space of {}: {}", directory.string(),
              errno_text(error));
}

void limit_by(const std::optional<Quota>& quota, const char* whose, FreeSpace& space) {
  if (!quota) return;
  const std::int64_t left = quota_left(*quota, static_cast<std::uint64_t>(std::time(nullptr)));
  if (left < space.bytes) space = {left, whose};
}

}  // namespace

std::int64_t quota_left(const Quota& quota, std::uint64_t now_unix_s) {
  const auto left_of = [&](std::uint64_t limit) {
    return limit > quota.used_bytes ? static_cast<std::int64_t>(limit - quota.used_bytes) : 0;
  };
  std::int64_t left = kUnlimited;
  if (quota.hard_limit_bytes > 0) left = left_of(quota.hard_limit_bytes);
  const bool grace_over = quota.grace_ends_unix_s > 0 && now_unix_s >= quota.grace_ends_unix_s;
  if (quota.soft_limit_bytes > 0 && grace_over) left = std::min(left, left_of(quota.soft_limit_bytes));
  return left;
}

Result<FreeSpace> free_space_at(const fs::path& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statvfs disk {};
  struct stat info {};
  if (!fd || ::fstatvfs(fd.get(), &disk) != 0 || ::fstat(fd.get(), &info) != 0) {
    return unknown_space(directory);
  }
  FreeSpace space{static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize), "free on its disk"};
  // Files in a set-group-id directory belong to the directory's group.
  const gid_t group = (info.st_mode & S_ISGID) != 0 ? info.st_gid : ::getegid();
  limit_by(ask_quota(fd.get(), USRQUOTA, ::geteuid()), "left of the user's quota", space);
  limit_by(ask_quota(fd.get(), GRPQUOTA, group), "left of the group's quota", space);
  return space;
}

}  // namespace muster::checkpoint
