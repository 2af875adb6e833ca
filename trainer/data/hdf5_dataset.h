// Labelled samples in HDF5 files: a directory holds train.h5 and test.h5, each with the datasets
//   /x  float32 or uint8, [n, …] with 1 to 3 dimensions of a sample; uint8 is scaled as IDX's bytes are
//   /y  integers of any width, [n], from 0
// All of it is read into memory at once, with HDF5's own file locking off (it fails on NFS and Lustre).
#pragma once

#include <filesystem>

#include "common/status.h"
#include "trainer/data/dataset.h"

namespace muster::data {

// Errors name file and dataset: missing, not HDF5 or truncated, a type or shape that is not as above, counts
// that do not fit together, labels out of range, values that are not finite. Takes hdf5_lock() itself.
Result<DatasetPair> load_hdf5_datasets(const std::filesystem::path& directory);

}  // namespace muster::data
