// Checkpoints in memory, for tests of what uses a store. Ranks are threads that share one MemoryCheckpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
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
  // Flips a bit of the newest checkpoint's data, which the next load finds out.
  void damage_newest();

 private:
  friend class MemoryStore;
  mutable std::mutex mutex_;
  std::int32_t newest_generation_ = 0;
  std::map<std::string, std::vector<std::byte>> staged_;  // files of the save that is going on
  std::map<std::int64_t, std::shared_ptr<const Checkpoint>> committed_;
};

struct MemoryStoreOptions {
  std::shared_ptr<MemoryCheckpoints> backing;
  Retention retention;
  std::int32_t generation = 0;
  std::string code;
};

Result<std::unique_ptr<CheckpointStore>> open_memory_store(MemoryStoreOptions options, Group group);

}  // namespace muster::checkpoint
