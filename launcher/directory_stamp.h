// A cheap fingerprint of a directory tree: has anything in it changed? Names are not compared, nor contents.
#pragma once

#include <cstdint>
#include <filesystem>

namespace muster {

struct DirectoryStamp {
  std::int64_t newest_change_ns = 0;  // modification time
  std::int64_t entries = 0;
  std::int64_t bytes = 0;
  bool operator==(const DirectoryStamp&) const = default;
};

// Looks at the first 100,000 entries. A directory that is not there or not readable is an empty one.
DirectoryStamp stamp_directory(const std::filesystem::path& directory);

}  // namespace muster
