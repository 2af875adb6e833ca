#include "common/checkpoint/find_checkpoint.h"

#include <fmt/ranges.h>

#include <utility>

#include "common/checkpoint/layout.h"
#include "common/checkpoint/verify.h"
#include "common/sha256.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string reason_of(const std::vector<Problem>& problems) {
  std::vector<std::string> texts;
  for (const Problem& problem : problems) texts.push_back(to_text(problem));
  return fmt::format("{}", fmt::join(texts, "; "));
}

tl::unexpected<Error> damage(const fs::path& step_directory, const std::vector<Problem>& problems) {
  return fail(ErrorCode::kCorrupt, "{} is damaged: {}", step_directory.string(), reason_of(problems));
}

Result<FoundCheckpoint> open_checkpoint(const fs::path& step_directory, Verify verify) {
  MUSTER_ASSIGN(ManifestCheck check, check_commit(step_directory));
  if (!check.problems.empty() || !check.manifest) return damage(step_directory, check.problems);
  FoundCheckpoint found{
      step_directory, *std::move(check.manifest), sha256_hex(check.text.data(), check.text.size()), {}};
  if (verify == Verify::kManifest) return found;
  std::vector<Problem> problems;
  for (const StoredFile& file : found.manifest.files) {
    MUSTER_ASSIGN(auto problem, verify_file(step_directory, file));
    if (problem) problems.push_back(*std::move(problem));
  }
  if (!problems.empty()) return damage(step_directory, problems);
  return found;
}

}  // namespace

Result<FoundCheckpoint> find_checkpoint(const fs::path& path, Verify verify) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    const bool is_there = fs::exists(path, ignored);
    return fail(ErrorCode::kNotFound, "{} {}; allowed: a checkpoint (step-…), or a directory of checkpoints",
                path.string(), is_there ? "is no directory" : "is not there");
  }
  // Without a trailing slash, "." or "..", so that the last part is the directory's own name.
  const fs::path directory = fs::canonical(path, ignored);
  if (parse_step_directory_name(directory.filename().string()) ||
      fs::exists(directory / kManifestFile, ignored))
    return open_checkpoint(directory, verify);
  MUSTER_ASSIGN(const auto steps, step_directories(directory));
  std::vector<std::string> damaged;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (!step->committed) continue;
    Result<FoundCheckpoint> found = open_checkpoint(step->path, verify);
    if (!found && found.error().code == ErrorCode::kCorrupt) {
      damaged.push_back(found.error().message);
      continue;
    }
    if (found) found->passed_over = std::move(damaged);
    return found;
  }
  if (damaged.empty())
    return fail(ErrorCode::kNotFound, "{} holds no committed checkpoint", directory.string());
  return fail(ErrorCode::kCorrupt, "{} holds no sound checkpoint: {}", directory.string(),
              fmt::join(damaged, "; "));
}

}  // namespace muster::checkpoint
