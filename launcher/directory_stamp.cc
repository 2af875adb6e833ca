#include "launcher/directory_stamp.h"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>

namespace muster {

DirectoryStamp stamp_directory(const std::filesystem::path& directory) {
  constexpr std::int64_t kEntriesMax = 100000;
  DirectoryStamp stamp;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::end(entry); entry.increment(error)) {
    struct stat info {};
    if (::lstat(entry->path().c_str(), &info) != 0) continue;
    const std::int64_t changed_ns =
        std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + std::int64_t{info.st_mtim.tv_nsec};
    stamp.newest_change_ns = std::max(stamp.newest_change_ns, changed_ns);
    stamp.bytes += S_ISREG(info.st_mode) ? std::int64_t{info.st_size} : 0;
    if (++stamp.entries >= kEntriesMax) break;
  }
  return stamp;
}

}  // namespace muster
