// HDF5 files as images in memory (core driver), so that every byte reaches the disk through our own file
// seam. Takes hdf5_lock() itself.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/status.h"
#include "trainer/checkpoint/checkpoint_store.h"

namespace muster::checkpoint {

struct FileImage {
  std::vector<std::byte> bytes;
  StoredFile entry;  // sizes, offsets and hashes of exactly these bytes
};

// One contiguous little-endian fp32 dataset per slice, at /<tensor name>. Slices without elements are left
// out. At most one slice per tensor.
Result<FileImage> build_rank_image(const std::string& file_name, std::span<const TensorSlice> slices);

// Each tensor as a virtual dataset over the rank files (names relative to the master file, NaN where a rank
// file is missing), and the training state as plain attributes, groups and datasets.
Result<FileImage> build_master_image(const Manifest& manifest);

}  // namespace muster::checkpoint
