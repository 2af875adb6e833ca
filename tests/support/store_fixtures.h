// The checkpoint stores that the contract test runs on.
#pragma once

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/layout.h"
#include "tests/support/temporary_directory.h"
#include "trainer/checkpoint/hdf5_store.h"
#include "trainer/checkpoint/memory_store.h"

namespace muster::testing {

// What outlives the ranks: a directory, or memory that they share.
class StoreFixture {
 public:
  virtual ~StoreFixture() = default;
  virtual Result<std::unique_ptr<checkpoint::CheckpointStore>> open(const checkpoint::Group& group,
                                                                    const checkpoint::Retention& retention,
                                                                    std::int32_t generation) = 0;
  virtual std::vector<std::int64_t> steps() const = 0;
  virtual void damage_newest() = 0;
};

class Hdf5Fixture final : public StoreFixture {
 public:
  Result<std::unique_ptr<checkpoint::CheckpointStore>> open(const checkpoint::Group& group,
                                                            const checkpoint::Retention& retention,
                                                            std::int32_t generation) override {
    checkpoint::Hdf5StoreOptions options;
    options.directory = directory();
    options.retention = retention;
    options.generation = generation;
    options.code = "contract test";
    return checkpoint::open_hdf5_store(std::move(options), group);
  }

  std::vector<std::int64_t> steps() const override {
    std::vector<std::int64_t> steps;
    const auto directories = checkpoint::step_directories(directory());
    if (!directories) return steps;
    for (const auto& entry : *directories) {
      if (entry.committed) steps.push_back(entry.name.step);
    }
    return steps;
  }

  void damage_newest() override {
    const auto newest = checkpoint::step_directories(directory()).value().back();
    std::fstream file(newest.path / "rank-00000.h5", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(5000);
    const int byte = file.get();
    file.seekp(5000);
    file.put(static_cast<char>(byte ^ 1));
  }

  std::filesystem::path directory() const { return directory_.path() / "checkpoints"; }

 private:
  TemporaryDirectory directory_;
};

class MemoryFixture final : public StoreFixture {
 public:
  Result<std::unique_ptr<checkpoint::CheckpointStore>> open(const checkpoint::Group& group,
                                                            const checkpoint::Retention& retention,
                                                            std::int32_t generation) override {
    return checkpoint::open_memory_store({backing_, retention, generation, "contract test"}, group);
  }
  std::vector<std::int64_t> steps() const override { return backing_->steps(); }
  void damage_newest() override { backing_->damage_newest(); }

 private:
  std::shared_ptr<checkpoint::MemoryCheckpoints> backing_ = std::make_shared<checkpoint::MemoryCheckpoints>();
};

enum class StoreKind { kHdf5, kMemory };

inline std::vector<StoreKind> all_store_kinds() { return {StoreKind::kHdf5, StoreKind::kMemory}; }
inline std::string name_of(StoreKind kind) { return kind == StoreKind::kHdf5 ? "Hdf5" : "Memory"; }

inline std::unique_ptr<StoreFixture> make_store_fixture(StoreKind kind) {
  if (kind == StoreKind::kHdf5) return std::make_unique<Hdf5Fixture>();
  return std::make_unique<MemoryFixture>();
}

}  // namespace muster::testing
