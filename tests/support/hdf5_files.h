// HDF5 files with whatever is in them, for tests. Their user holds hdf5_lock(). All inline.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "trainer/handles/hdf5_handles.h"

namespace muster::testing {

inline Hdf5Id owned_hdf5(hid_t id, Hdf5Id::Close close) {
  auto result = own(id, close, "prepare a test");
  EXPECT_TRUE(result) << result.error().message;
  return *std::move(result);
}

inline Hdf5Id create_hdf5(const std::filesystem::path& path) {
  return owned_hdf5(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
}

// `stored` and `memory`: the types in the file and of T. Compressed in chunks of so many rows, if any.
template <class T>
void add_dataset(const Hdf5Id& file, const char* name, const std::vector<hsize_t>& shape, hid_t stored,
                 hid_t memory, const std::vector<T>& values, hsize_t chunk_rows = 0) {
  const Hdf5Id space =
      owned_hdf5(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
  const Hdf5Id properties = owned_hdf5(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  if (chunk_rows > 0) {
    std::vector<hsize_t> chunk = shape;
    chunk.front() = chunk_rows;
    ASSERT_GE(H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()), 0);
    ASSERT_GE(H5Pset_deflate(properties.get(), 6), 0);
  }
  const Hdf5Id dataset = owned_hdf5(
      H5Dcreate2(file.get(), name, stored, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
      H5Dclose);
  ASSERT_GE(H5Dwrite(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
}

}  // namespace muster::testing
