// Which checkpoint a path means to somebody who only reads: a step directory is itself; a directory of step
// directories is the newest committed one that is as it was written. Changes nothing on the disk.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"

namespace muster::checkpoint {

struct FoundCheckpoint {
  std::filesystem::path path;  // the step directory
  Manifest manifest;
  // Of manifest.json, which holds the hashes of all the rest: the checkpoint's identity.
  std::string manifest_sha256;
  std::vector<std::string> passed_over;  // newer ones that are damaged, and how
};

enum class Verify { kManifest, kEverything };  // marker and manifest alone; every byte of every file

// kNotFound: nothing there, or no committed checkpoint; kCorrupt: the step
// directory, or every checkpoint of the directory, is damaged.
Result<FoundCheckpoint> find_checkpoint(const std::filesystem::path& path, Verify verify);

}  // namespace muster::checkpoint
