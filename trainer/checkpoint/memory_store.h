// Checkpoints in memory, for tests of what uses a store. Ranks are threads that share one MemoryCheckpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/retention.h"

namespace muster::checkpoint {

// What outlives an attempt: the "disk". Any thread may call anything.
class MemoryCheckpoints {
 public:
  struct Checkpoint {
    Manifest manifest;
    std::map<std::string, std::vector<std::byte>> files;
  };

  std::vector<std::int64_t> steps() const;
  std::shared_ptr<const Checkpoint> find(std::int64_t step) const;  // null: not there
  // Flips a bit of the newest checkpoint's data, which the next load finds out.
  void damage_newest();

  // From now on only this attempt, or a newer one, may commit; forgets what is staged.
  Status claim(std::int32_t generation);
  void stage(const std::string& file, std::vector<std::byte> bytes);
  // Of what is staged; then removes what the retention does not keep.
  Status commit(Manifest manifest, const Retention& retention);
  void quarantine(std::int64_t step, Quarantined entry);
  std::optional<Quarantined> newest_in_quarantine() const;
  // As if a user had removed what is there.
  void forget_quarantined();

 private:
  Status check_generation(std::int32_t generation) const;  // with the lock held

  mutable std::mutex mutex_;
  std::int32_t newest_generation_ = 0;
  std::map<std::string, std::vector<std::byte>> staged_;  // files of the save that is going on
  std::map<std::int64_t, std::shared_ptr<const Checkpoint>> committed_;
  std::map<std::int64_t, Quarantined> quarantined_;
};

struct MemoryStoreOptions {
  std::shared_ptr<MemoryCheckpoints> backing;
  Retention retention;
  std::int32_t generation = 0;
  std::string code;
};

Result<std::unique_ptr<CheckpointStore>> open_memory_store(MemoryStoreOptions options, Group group);

}  // namespace muster::checkpoint
