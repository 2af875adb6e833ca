// Names of the files and directories of a checkpoint directory; docs/checkpoint_format.md describes them.
//   <directory>/generation                     the newest attempt that uses the directory (a fence)
//   <directory>/step-000000000042[.REVISION]/  rank-00000.h5 …, master.h5, manifest.json, COMMITTED
//   <directory>/.partial-GENERATION-step-…/    a save that is going on, or was killed
//   <directory>/quarantine/step-…[-N]/         a damaged checkpoint, with a file REASON
// Pure, but for step_directories(). Shared by launcher and trainer; knows nothing of HDF5.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/file_ops.h"
#include "common/status.h"

namespace muster::checkpoint {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kMarkerFile = "COMMITTED";
inline constexpr const char* kMasterFile = "master.h5";
inline constexpr const char* kFenceFile = "generation";
inline constexpr const char* kQuarantineDirectory = "quarantine";
inline constexpr const char* kReasonFile = "REASON";
inline constexpr std::string_view kPartialPrefix = ".partial-";

// A step that is saved again with other content gets the next revision, so that the old one stays until the
// new one is committed. Revision 1 has no suffix.
std::string step_directory_name(std::int64_t step, int revision = 1);
std::string partial_directory_name(std::int32_t generation, std::int64_t step);
std::string rank_file_name(int rank);

struct StepName {
  std::int64_t step = 0;
  int revision = 1;
  auto operator<=>(const StepName&) const = default;
};
// The generation in a partial directory's name; empty if it is none.
std::optional<std::int32_t> generation_of_partial(std::string_view name);
// Empty unless `name` is exactly what step_directory_name() makes.
std::optional<StepName> parse_step_directory_name(std::string_view name);

struct StepDirectory {
  StepName name;
  std::filesystem::path path;
  bool committed = false;  // the marker is there; whether it is sound is verify.h's question
};
// The step directories directly below `directory`, in ascending order of (step, revision). kNotFound if there
// is no such directory; kIo if something about one of them cannot be found out: it might be the best there
// is.
Result<std::vector<StepDirectory>> step_directories(const std::filesystem::path& directory,
                                                    FileOps& ops = posix_file_ops());

// The marker's text holds the manifest's hash and a check of itself, so that a damaged marker can be told
// from a damaged manifest.
std::string marker_text(std::string_view manifest_sha256);
// The manifest's hash. kUnavailable for a marker of another version of the format, kCorrupt for a damaged
// one.
Result<std::string> parse_marker(std::string_view text);

// 64 lower-case hexadecimal digits.
bool is_sha256_hex(std::string_view text);

}  // namespace muster::checkpoint
