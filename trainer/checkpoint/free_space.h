// How much may still be written below a path: what the disk has, and what the quotas of this user and group
// leave of it, as far as that can be known.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>

#include "common/status.h"

namespace muster::checkpoint {

struct FreeSpace {
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
  std::string limit;  // what sets it, in words: "free on the disk"
};
using FreeSpaceAt = std::function<Result<FreeSpace>(const std::filesystem::path&)>;

// statvfs(2) and quotactl_fd(2). A quota that cannot be asked for (no quotas, an older kernel, a network file
// system whose server keeps them) limits nothing: then the write that exceeds it fails. Blocks on the file
// system. An error: the path cannot be looked at.
Result<FreeSpace> free_space_at(const std::filesystem::path& directory);

// A quota as quotactl(2) tells it.
struct Quota {
  std::uint64_t hard_limit_bytes = 0;  // 0: none
  std::uint64_t soft_limit_bytes = 0;  // 0: none
  std::uint64_t used_bytes = 0;
  std::uint64_t grace_ends_unix_s = 0;  // when the soft limit becomes a hard one, if it is exceeded; 0: never
};

// What a quota leaves at this time: the largest number if it sets no limit. Pure.
std::int64_t quota_left(const Quota& quota, std::uint64_t now_unix_s);

}  // namespace muster::checkpoint
