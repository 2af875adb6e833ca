#include "common/checkpoint/verify.h"

#include <fmt/ranges.h>

#include "common/checkpoint/layout.h"
#include "common/checkpoint/read_only_file.h"
#include "common/file_ops.h"
#include "common/sha256.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The text of a small file; nothing and a problem if it is missing.
Result<std::optional<std::string>> read_or_note(const fs::path& directory, const char* file,
                                                std::vector<Problem>& problems) {
  auto text = read_text_file(directory / file);
  if (text) return std::optional(*std::move(text));
  if (text.error().code != ErrorCode::kNotFound) return tl::unexpected(std::move(text).error());
  problems.push_back({file, "is missing", {}});
  return std::optional<std::string>();
}

Result<std::vector<std::string>> damaged_datasets(const ReadOnlyFile& in, std::int64_t size,
                                                  const StoredFile& file) {
  std::vector<std::string> damaged;
  for (const StoredRows& rows : file.datasets) {
    bool intact = rows.offset + rows.bytes <= size;
    if (intact) {
      const auto hash = in.sha256(rows.offset, rows.bytes);
      if (!hash && hash.error().code != ErrorCode::kCorrupt) return tl::unexpected(hash.error());
      intact = hash && *hash == rows.sha256;
    }
    if (!intact) damaged.push_back(rows.tensor);
  }
  return damaged;
}

// Written by another version of muster: nobody's damage.
tl::unexpected<Error> of_another_version(const fs::path& directory, const Error& error) {
  return fail(ErrorCode::kUnavailable, "{}: {}", directory.string(), error.message);
}

// A directory that carries another step's name would be resumed as that step.
void check_name(const fs::path& directory, const Manifest& manifest, std::vector<Problem>& problems) {
  const std::string name = fs::absolute(directory).lexically_normal().filename().string();
  const auto step = parse_step_directory_name(name);
  if (step && step->step != manifest.step) {
    problems.push_back(
        {kManifestFile, fmt::format("is of step {}, but the directory is {}", manifest.step, name), {}});
  }
}

}  // namespace

std::string to_text(const Problem& problem) {
  std::string text = fmt::format("{} {}", problem.file, problem.what);
  switch (problem.datasets.size()) {
    case 0:
      return text;
    case 1:
      return fmt::format("{} (in dataset {})", text, problem.datasets.front());
    default:
      return fmt::format("{} (in dataset {} and {} more)", text, problem.datasets.front(),
                         problem.datasets.size() - 1);
  }
}

std::string to_full_text(const Problem& problem) {
  if (problem.datasets.empty()) return to_text(problem);
  return fmt::format("{} {} (in dataset {})", problem.file, problem.what, fmt::join(problem.datasets, ", "));
}

json to_json(const Problem& problem) {
  return {{"file", problem.file}, {"what", problem.what}, {"datasets", problem.datasets}};
}

Result<Problem> problem_from_json(const json& object) {
  try {
    return Problem{object.at("file").get<std::string>(), object.at("what").get<std::string>(),
                   object.at("datasets").get<std::vector<std::string>>()};
  } catch (const json::exception& error) {
    return fail(ErrorCode::kInternal, "a malformed problem report: {}", error.what());
  }
}

Result<ManifestCheck> check_commit(const fs::path& step_directory) {
  ManifestCheck check;
  MUSTER_ASSIGN(const auto marker, read_or_note(step_directory, kMarkerFile, check.problems));
  std::string promised;
  if (marker) {
    auto hash = parse_marker(*marker);
    if (hash) {
      promised = *std::move(hash);
    } else if (hash.error().code == ErrorCode::kUnavailable) {
      return of_another_version(step_directory, hash.error());
    } else {
      check.problems.push_back({kMarkerFile, "is damaged", {}});
    }
  }
  MUSTER_ASSIGN(const auto text, read_or_note(step_directory, kManifestFile, check.problems));
  if (!text) return check;
  check.text = *text;
  const std::string actual = sha256_hex(text->data(), text->size());
  if (!promised.empty() && actual != promised) {
    check.problems.push_back(
        {kManifestFile,
         fmt::format("is damaged: its SHA-256 is {}, {} says {}", actual, kMarkerFile, promised),
         {}});
    return check;
  }
  auto manifest = parse_manifest(*text);
  if (!manifest && manifest.error().code == ErrorCode::kUnavailable) {
    return of_another_version(step_directory, manifest.error());
  }
  if (!manifest) {
    check.problems.push_back(
        {kManifestFile, fmt::format("cannot be used: {}", manifest.error().message), {}});
    return check;
  }
  check_name(step_directory, *manifest, check.problems);
  check.manifest = *std::move(manifest);
  return check;
}

Result<std::optional<Problem>> verify_file(const fs::path& step_directory, const StoredFile& file) {
  const auto in = ReadOnlyFile::open(step_directory / file.name);
  if (!in) {
    if (in.error().code != ErrorCode::kNotFound) return tl::unexpected(in.error());
    std::vector<std::string> datasets;
    for (const StoredRows& rows : file.datasets) datasets.push_back(rows.tensor);
    return Problem{file.name, "is missing", std::move(datasets)};
  }
  MUSTER_ASSIGN(const std::int64_t size, in->size());
  std::string what;
  if (size != file.bytes) {
    what = fmt::format("is {} bytes long, the manifest says {}", size, file.bytes);
  } else {
    const auto hash = in->sha256(0, size);
    if (hash && *hash == file.sha256) return std::optional<Problem>();
    if (!hash && hash.error().code != ErrorCode::kCorrupt) return tl::unexpected(hash.error());
    what = hash ? fmt::format("is damaged: its SHA-256 is {}, the manifest says {}", *hash, file.sha256)
                : fmt::format("became shorter while it was read: {}", hash.error().message);
  }
  MUSTER_ASSIGN(auto datasets, damaged_datasets(*in, size, file));
  if (datasets.empty()) what += ", outside any dataset";
  return Problem{file.name, std::move(what), std::move(datasets)};
}

Result<Verification> verify_checkpoint(const fs::path& step_directory) {
  std::error_code error;
  if (!fs::is_directory(step_directory, error)) {
    return fail(ErrorCode::kNotFound, "there is no checkpoint directory {}", step_directory.string());
  }
  MUSTER_ASSIGN(ManifestCheck check, check_commit(step_directory));
  Verification verification{std::move(check.manifest), std::move(check.problems)};
  if (!verification.manifest) return verification;
  for (const StoredFile& file : verification.manifest->files) {
    MUSTER_ASSIGN(auto problem, verify_file(step_directory, file));
    if (problem) verification.problems.push_back(*std::move(problem));
  }
  return verification;
}

}  // namespace muster::checkpoint
