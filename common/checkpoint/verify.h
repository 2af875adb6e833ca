// Is a checkpoint what was written? Marker, manifest, and the size and hash of every file.
// Damage is a Problem in a successful result; a failed Result means that the question could not be answered
// (permission denied, out of file descriptors), which says nothing about the checkpoint.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"

namespace muster::checkpoint {

struct Problem {
  std::string file;                   // name within the checkpoint's directory
  std::string what;                   // "is missing", "is 100 bytes long, the manifest says 2048", …
  std::vector<std::string> datasets;  // whose data is hit; empty: the damage lies outside any dataset
};

// One short line: of several datasets the first, and how many more. A file may hold hundreds.
std::string to_text(const Problem& problem);
// Names all datasets: for who asked what exactly is damaged.
std::string to_full_text(const Problem& problem);
nlohmann::json to_json(const Problem& problem);
Result<Problem> problem_from_json(const nlohmann::json& json);

struct ManifestCheck {
  std::string text;
  std::optional<Manifest> manifest;  // there if the manifest could be trusted or at least parsed
  std::vector<Problem> problems;     // of COMMITTED and manifest.json
};
// Marker and manifest only: cheap.
Result<ManifestCheck> check_commit(const std::filesystem::path& step_directory);

// Reads all of one file.
Result<std::optional<Problem>> verify_file(const std::filesystem::path& step_directory,
                                           const StoredFile& file);

struct Verification {
  std::optional<Manifest> manifest;
  std::vector<Problem> problems;
  bool sound() const { return problems.empty(); }
};
Result<Verification> verify_checkpoint(const std::filesystem::path& step_directory);

}  // namespace muster::checkpoint
