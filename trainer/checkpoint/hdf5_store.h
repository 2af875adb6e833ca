// Checkpoints as HDF5 files on a file system that all ranks share. docs/checkpoint_format.md has the layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "common/file_ops.h"
#include "trainer/checkpoint/checkpoint_directory.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/free_space.h"

namespace muster::checkpoint {

struct Hdf5StoreOptions {
  std::filesystem::path directory;  // made if it is not there
  Retention retention;
  // Of this attempt. load_latest() claims the directory for it: older attempts can publish nothing any more.
  std::int32_t generation = 0;
  std::string code;  // identity of the program, stored with each checkpoint
  FreeSpaceAt free_space = free_space_at;
};

// `files` must outlive the store. Local, not collective.
Result<std::unique_ptr<CheckpointStore>> open_hdf5_store(Hdf5StoreOptions options, Group group,
                                                         FileOps& files = posix_file_ops());

}  // namespace muster::checkpoint
