// The directory of a run's checkpoints, as rank 0 changes it: the fence against older attempts, atomic
// commit, retention, removal of debris, quarantine. Every change goes through the file seam in an order that
// leaves, if it stops anywhere, either the old checkpoints or the old ones and the new one. Threads: one at a
// time. Blocks on the file system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"
#include "common/file_ops.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/retention.h"

namespace muster::checkpoint {

class CheckpointDirectory {
 public:
  CheckpointDirectory(std::filesystem::path path, FileOps& ops, Retention retention)
      : path_(std::move(path)), ops_(&ops), retention_(retention) {}

  const std::filesystem::path& path() const { return path_; }

  // Makes the directory if need be, and raises the fence to `generation`. kAborted if a newer attempt has
  // raised it further: this one must stop. kDenied if the directory is read-only, also if the fence is that
  // high.
  Status claim(std::int32_t generation);
  // Whether this is the newest attempt that uses the directory, as far as this rank sees.
  bool is_claimed_by(std::int32_t generation) const;

  // An empty directory for the files of a save that is not committed yet.
  Result<std::filesystem::path> open_partial(std::int32_t generation, std::int64_t step);
  // Best effort: what is left is debris, which clean_up() removes later.
  void drop_partial(const std::filesystem::path& partial);

  // Makes the partial directory, which has all its files, the checkpoint of its step, and returns its path.
  // If the same step is committed already, with the same content and undamaged, that one stays. On failure
  // the checkpoint is not there and the partial directory is removed.
  Result<std::filesystem::path> commit(const std::filesystem::path& partial, const Manifest& manifest,
                                       std::string_view manifest_sha256);

  // Removes what the retention does not keep, and debris of killed attempts: everything but the committed
  // checkpoints to keep. `newest` is kept in any case. Returns what could not be removed. Once a newer
  // attempt than `generation` has claimed the directory, nothing is removed: its saves would look like
  // debris.
  std::vector<std::string> clean_up(const std::filesystem::path& newest, std::int32_t generation);
  // Debris only.
  std::vector<std::string> remove_debris(std::int32_t generation);

  // Moves a checkpoint out of the way, with the reason beside it.
  Result<Quarantined> quarantine(const std::filesystem::path& step_directory, const std::string& reason);
  // The newest one there, whenever it was moved. kIo if that cannot be found out: a run must not begin anew
  // because its damaged checkpoints were not seen.
  Result<std::optional<Quarantined>> newest_in_quarantine() const;

 private:
  Status check_fence(std::int32_t generation) const;
  Result<std::int32_t> fence() const;
  Status publish(const std::filesystem::path& partial, const std::filesystem::path& target,
                 std::string_view manifest_sha256);
  // The marker goes first, so that a half removed checkpoint is none.
  Status remove_checkpoint(const std::filesystem::path& step_directory);
  std::vector<std::filesystem::path> expired(const std::filesystem::path& newest) const;

  std::filesystem::path path_;
  FileOps* ops_;
  Retention retention_;
};

}  // namespace muster::checkpoint
