#include "trainer/checkpoint/checkpoint_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

#include "common/checkpoint/verify.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;

using RowsKey = std::tuple<std::string_view, std::int64_t, std::int64_t, std::string_view>;

std::vector<RowsKey> rows_of(const Manifest& manifest) {
  std::vector<RowsKey> keys;
  for (const StoredFile& file : manifest.files) {
    for (const StoredRows& rows : file.datasets) {
      keys.emplace_back(rows.tensor, rows.row_begin, rows.row_end, rows.sha256);
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

bool same_content(const Manifest& a, const Manifest& b) {
  const auto same_tensor = [](const TensorInfo& x, const TensorInfo& y) {
    return x.name == y.name && x.shape == y.shape;
  };
  return a.state == b.state && a.metric == b.metric &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), same_tensor) &&
         rows_of(a) == rows_of(b);
}

bool is_debris(const std::string& name) {
  return name.starts_with(kPartialPrefix) || name.starts_with(std::string(kFenceFile) + ".tmp-");
}

// mkdir -p, so that a power loss cannot take a new directory away with what is stored in it.
Status make_durable_directories(FileOps& ops, const fs::path& path) {
  std::error_code ignored;
  if (path.empty() || fs::is_directory(path, ignored)) return {};
  MUSTER_TRY(make_durable_directories(ops, path.parent_path()));
  MUSTER_TRY(make_directories(ops, path));
  return sync_directory(ops, path.parent_path());
}

// For where nothing has to be written yet: a read-only directory is told now, not when work is done.
Status check_writable(const fs::path& directory) {
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
  const int error = errno;
  return fail(error_code_of_errno(error), "cannot write to {}: {}", directory.string(), errno_text(error));
}

}  // namespace

Result<std::int32_t> CheckpointDirectory::fence() const {
  const auto text = read_text_file(path_ / kFenceFile);
  if (!text && text.error().code == ErrorCode::kNotFound) return 0;
  if (!text) return tl::unexpected(text.error());
  std::int32_t generation = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), generation);
  if (error != std::errc() || generation < 0 || std::string_view(end) != "\n") {
    return fail(
        ErrorCode::kCorrupt,
        "{} is damaged: it should hold the number of the newest attempt. Remove it if no attempt is running",
        (path_ / kFenceFile).string());
  }
  return generation;
}

Status CheckpointDirectory::check_fence(std::int32_t generation) const {
  MUSTER_ASSIGN(const std::int32_t newest, fence());
  if (newest > generation) {
    return fail(
        ErrorCode::kAborted,
        "attempt {} has taken over the checkpoint directory {}; this is attempt {} and must not write "
        "there. (If attempt {} is long gone and you want to start over by hand, remove the file {}.)",
        newest, path_.string(), generation, newest, (path_ / kFenceFile).string());
  }
  return {};
}

Status CheckpointDirectory::claim(std::int32_t generation) {
  MUSTER_TRY(make_durable_directories(*ops_, path_));
  MUSTER_TRY(check_fence(generation));
  MUSTER_ASSIGN(const std::int32_t newest, fence());
  if (newest == generation) return check_writable(path_);
  return publish_file(*ops_, path_ / kFenceFile, fmt::format("{}\n", generation));
}

Result<fs::path> CheckpointDirectory::open_partial(std::int32_t generation, std::int64_t step) {
  const fs::path partial = path_ / partial_directory_name(generation, step);
  MUSTER_TRY(remove_tree(*ops_, partial));
  MUSTER_TRY(make_directories(*ops_, partial));
  return partial;
}

void CheckpointDirectory::drop_partial(const fs::path& partial) {
  [[maybe_unused]] const Status best_effort = remove_tree(*ops_, partial);
}

Status CheckpointDirectory::publish(const fs::path& partial, const fs::path& target,
                                    std::string_view manifest_sha256) {
  const int renamed = uninterrupted([&] { return ops_->rename(partial, target); });
  if (renamed < 0) {
    drop_partial(partial);
    return fail(error_code_of_errno(-renamed), "cannot rename {} to {}: {}", partial.string(),
                target.string(), errno_text(-renamed));
  }
  Status status = sync_directory(*ops_, path_);
  if (status) status = publish_file(*ops_, target / kMarkerFile, marker_text(manifest_sha256));
  if (!status) {
    [[maybe_unused]] const Status best_effort = remove_checkpoint(target);
  }
  return status;
}

Result<fs::path> CheckpointDirectory::commit(const fs::path& partial, const Manifest& manifest,
                                             std::string_view manifest_sha256) {
  const auto prepare = [&]() -> Result<fs::path> {
    MUSTER_TRY(sync_directory(*ops_, partial));
    MUSTER_ASSIGN(const auto directories, step_directories(path_, *ops_));
    int revision = 1;
    for (const StepDirectory& existing : directories) {
      if (existing.name.step != manifest.step) continue;
      if (!existing.committed) {
        MUSTER_TRY(remove_checkpoint(existing.path));
        continue;
      }
      MUSTER_ASSIGN(const Verification verification, verify_checkpoint(existing.path));
      if (verification.sound() && same_content(*verification.manifest, manifest)) return existing.path;
      revision = existing.name.revision + 1;
    }
    MUSTER_TRY(check_fence(manifest.generation));
    return path_ / step_directory_name(manifest.step, revision);
  };
  auto target = prepare();
  const Result<bool> already_there = target ? file_exists(*ops_, *target) : Result<bool>(false);
  if (!already_there) target = tl::unexpected(already_there.error());
  if (!target || *already_there) {
    drop_partial(partial);
    return target;
  }
  MUSTER_TRY(publish(partial, *target, manifest_sha256));
  return target;
}

Status CheckpointDirectory::remove_checkpoint(const fs::path& step_directory) {
  const int result = uninterrupted([&] { return ops_->unlink(step_directory / kMarkerFile); });
  if (result < 0 && result != -ENOENT) {
    return fail(ErrorCode::kIo, "cannot remove {}: {}", (step_directory / kMarkerFile).string(),
                errno_text(-result));
  }
  // A power loss must not bring the marker back over files that are gone.
  MUSTER_TRY(sync_directory(*ops_, step_directory));
  return remove_tree(*ops_, step_directory);
}

std::vector<fs::path> CheckpointDirectory::expired(const fs::path& newest) const {
  const auto directories = step_directories(path_, *ops_);
  if (!directories) return {};
  std::vector<fs::path> unwanted;
  std::vector<StepDirectory> candidates;  // newest first
  std::vector<std::optional<double>> metrics;
  for (auto directory = directories->rbegin(); directory != directories->rend(); ++directory) {
    if (!directory->committed) continue;  // debris
    if (!candidates.empty() && candidates.back().name.step == directory->name.step) {
      if (directory->path != newest) unwanted.push_back(directory->path);  // an older revision
      continue;
    }
    // A damaged one does not count as one of the last K, and is left for load_latest() to find.
    const auto check = check_commit(directory->path);
    if (!check || !check->manifest || !check->problems.empty()) continue;
    candidates.push_back(*directory);
    metrics.push_back(check->manifest->metric);
  }
  std::reverse(candidates.begin(), candidates.end());
  std::reverse(metrics.begin(), metrics.end());
  const std::vector<bool> keep = kept(retention_, metrics);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!keep[i] && candidates[i].path != newest) unwanted.push_back(candidates[i].path);
  }
  return unwanted;
}

std::vector<std::string> CheckpointDirectory::clean_up(const fs::path& newest, std::int32_t generation) {
  if (const Status ours = check_fence(generation); !ours) return {ours.error().message};
  std::vector<std::string> failures;
  for (const fs::path& path : expired(newest)) {
    if (const Status status = remove_checkpoint(path); !status) failures.push_back(status.error().message);
  }
  const std::vector<std::string> debris = remove_debris(generation);
  failures.insert(failures.end(), debris.begin(), debris.end());
  return failures;
}

std::vector<std::string> CheckpointDirectory::remove_debris(std::int32_t generation) {
  if (const Status ours = check_fence(generation); !ours) return {ours.error().message};
  std::vector<fs::path> partials;
  std::error_code error;
  fs::directory_iterator it(path_, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    if (is_debris(it->path().filename().string())) partials.push_back(it->path());
  }
  std::vector<std::string> failures;
  const auto note = [&](const Status& status) {
    if (!status) failures.push_back(status.error().message);
  };
  for (const fs::path& path : partials) note(remove_tree(*ops_, path));
  const auto directories = step_directories(path_, *ops_);
  if (!directories) {
    failures.push_back(directories.error().message);
    return failures;
  }
  for (const StepDirectory& directory : *directories) {
    if (!directory.committed) note(remove_checkpoint(directory.path));
  }
  return failures;
}

Result<Quarantined> CheckpointDirectory::quarantine(const fs::path& step_directory,
                                                    const std::string& reason) {
  const fs::path home = path_ / kQuarantineDirectory;
  MUSTER_TRY(make_durable_directories(*ops_, home));
  const std::string name = step_directory.filename().string();
  fs::path target = home / name;
  std::error_code ignored;
  for (int n = 2; fs::exists(target, ignored); ++n) target = home / fmt::format("{}-{}", name, n);
  MUSTER_TRY(rename_durably(*ops_, step_directory, target));
  MUSTER_TRY(sync_directory(*ops_, path_));
  // The move is what matters; the caller reports the reason too.
  [[maybe_unused]] const Status best_effort = publish_file(*ops_, target / kReasonFile, reason + "\n");
  return Quarantined{target.string(), reason};
}

bool CheckpointDirectory::is_claimed_by(std::int32_t generation) const {
  return fence().value_or(-1) == generation;
}

Result<std::optional<Quarantined>> CheckpointDirectory::newest_in_quarantine() const {
  fs::path newest;
  std::error_code error;
  for (fs::directory_iterator it(path_ / kQuarantineDirectory, error), end; !error && it != end;
       it.increment(error)) {
    newest = std::max(newest, it->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::kIo, "cannot list {}: {}", (path_ / kQuarantineDirectory).string(),
                error.message());
  }
  if (newest.empty()) return std::optional<Quarantined>();
  std::string reason = read_text_file(newest / kReasonFile).value_or("no reason recorded");
  while (reason.ends_with('\n')) reason.pop_back();
  return std::optional(Quarantined{newest.string(), std::move(reason)});
}

}  // namespace muster::checkpoint
