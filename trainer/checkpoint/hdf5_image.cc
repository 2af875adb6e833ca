#include "trainer/checkpoint/hdf5_image.h"

#include <algorithm>
#include <limits>
#include <map>

#include "common/checkpoint/layout.h"
#include "common/sha256.h"
#include "trainer/checkpoint/assemble.h"
#include "trainer/checkpoint/hdf5_state.h"
#include "trainer/handles/hdf5_handles.h"

namespace muster::checkpoint {
namespace {

using Extents = std::vector<hsize_t>;

Extents extents_of(const std::vector<std::int64_t>& shape) { return {shape.begin(), shape.end()}; }

// A file that lives in memory only. `increment` is how much memory HDF5 takes at a time.
Result<Hdf5Id> create_in_memory(const std::string& name, std::size_t increment) {
  MUSTER_ASSIGN(const Hdf5Id access,
                own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create file access properties"));
  MUSTER_TRY(check_hdf5(H5Pset_fapl_core(access.get(), increment, false), "choose the core driver"));
  return own(H5Fcreate(name.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()), H5Fclose,
             "create a file in memory");
}

Result<std::vector<std::byte>> image_of(const Hdf5Id& file) {
  MUSTER_TRY(check_hdf5(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "flush a file in memory"));
  const ssize_t size = H5Fget_file_image(file.get(), nullptr, 0);
  if (size <= 0) return fail(ErrorCode::kInternal, "HDF5 cannot tell the size of a file image");
  std::vector<std::byte> image(static_cast<std::size_t>(size));
  if (H5Fget_file_image(file.get(), image.data(), image.size()) != size) {
    return fail(ErrorCode::kInternal, "HDF5 cannot hand out a file image of {} bytes", size);
  }
  return image;
}

Result<Hdf5Id> link_properties() {
  MUSTER_ASSIGN(Hdf5Id links, own(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "create link properties"));
  MUSTER_TRY(check_hdf5(H5Pset_create_intermediate_group(links.get(), 1), "ask for groups to be made"));
  MUSTER_TRY(check_hdf5(H5Pset_char_encoding(links.get(), H5T_CSET_UTF8), "ask for UTF-8 names"));
  return links;
}

// Without times, so that equal contents make equal bytes.
Result<Hdf5Id> dataset_properties() {
  MUSTER_ASSIGN(Hdf5Id properties, own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create dataset properties"));
  MUSTER_TRY(check_hdf5(H5Pset_obj_track_times(properties.get(), false), "switch times off"));
  return properties;
}

Result<Hdf5Id> create_dataset(const Hdf5Id& file, const std::string& name, const Extents& extents,
                              const Hdf5Id& properties) {
  MUSTER_ASSIGN(const Hdf5Id links, link_properties());
  MUSTER_ASSIGN(const Hdf5Id space,
                own(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
                    fmt::format("create the dataspace of {}", name)));
  return own(H5Dcreate2(file.get(), name.c_str(), H5T_IEEE_F32LE, space.get(), links.get(), properties.get(),
                        H5P_DEFAULT),
             H5Dclose, fmt::format("create dataset {}", name));
}

Result<StoredRows> write_slice(const Hdf5Id& file, const TensorSlice& slice) {
  MUSTER_ASSIGN(const Hdf5Id properties, dataset_properties());
  MUSTER_TRY(check_hdf5(H5Pset_layout(properties.get(), H5D_CONTIGUOUS), "choose a contiguous layout"));
  MUSTER_TRY(
      check_hdf5(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY), "choose early allocation"));
  MUSTER_TRY(check_hdf5(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER), "switch filling off"));
  StoredRows rows = describe_slice(slice);
  MUSTER_ASSIGN(const Hdf5Id dataset, create_dataset(file, slice.name, extents_of(rows.shape), properties));
  MUSTER_TRY(check_hdf5(H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, slice.data),
                        fmt::format("write dataset {}", slice.name)));
  const haddr_t offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF) return fail(ErrorCode::kInternal, "HDF5 gave dataset {} no place", slice.name);
  rows.offset = static_cast<std::int64_t>(offset);
  return rows;
}

StoredFile describe(const std::string& name, const std::vector<std::byte>& bytes) {
  return {name, static_cast<std::int64_t>(bytes.size()), sha256_hex(bytes.data(), bytes.size()), {}};
}

// HDF5 reads "%b" in a source name as a block number and "%%" as a percent sign.
std::string escape_percent(std::string_view name) {
  std::string escaped;
  for (const char c : name) escaped.append(c == '%' ? 2 : 1, c);
  return escaped;
}

Status map_rows(const Hdf5Id& properties, const Extents& whole, const std::string& file_name,
                const StoredRows& rows) {
  const Extents part = extents_of(rows.shape);
  Extents start(whole.size(), 0);
  start.front() = static_cast<hsize_t>(rows.row_begin);
  const int rank = static_cast<int>(whole.size());
  MUSTER_ASSIGN(const Hdf5Id target,
                own(H5Screate_simple(rank, whole.data(), nullptr), H5Sclose, "create a virtual dataspace"));
  MUSTER_ASSIGN(const Hdf5Id source,
                own(H5Screate_simple(rank, part.data(), nullptr), H5Sclose, "create a source dataspace"));
  MUSTER_TRY(check_hdf5(
      H5Sselect_hyperslab(target.get(), H5S_SELECT_SET, start.data(), nullptr, part.data(), nullptr),
      "select rows"));
  return check_hdf5(H5Pset_virtual(properties.get(), target.get(), escape_percent(file_name).c_str(),
                                   fmt::format("/{}", escape_percent(rows.tensor)).c_str(), source.get()),
                    fmt::format("map rows of {}", rows.tensor));
}

struct Source {
  const StoredFile* file;
  const StoredRows* rows;
};

Status write_virtual(const Hdf5Id& file, const TensorInfo& tensor, const std::vector<Source>& sources) {
  const Extents whole = extents_of(tensor.shape);
  MUSTER_ASSIGN(const Hdf5Id properties, dataset_properties());
  const float missing = std::numeric_limits<float>::quiet_NaN();
  MUSTER_TRY(
      check_hdf5(H5Pset_fill_value(properties.get(), H5T_NATIVE_FLOAT, &missing), "set the fill value"));
  for (const auto& [stored, rows] : sources) MUSTER_TRY(map_rows(properties, whole, stored->name, *rows));
  MUSTER_ASSIGN(const Hdf5Id dataset, create_dataset(file, tensor.name, whole, properties));
  return {};
}

}  // namespace

Result<FileImage> build_rank_image(const std::string& file_name, std::span<const TensorSlice> slices) {
  std::int64_t total = 0;
  for (const TensorSlice& slice : slices) total += slice_bytes(slice);
  const auto lock = hdf5_lock();
  // One allocation for the data and a little for what describes it.
  MUSTER_ASSIGN(Hdf5Id file, create_in_memory(file_name, static_cast<std::size_t>(total) + (64U << 10)));
  std::vector<StoredRows> datasets;
  for (const TensorSlice& slice : slices) {
    if (slice_bytes(slice) == 0) continue;
    MUSTER_ASSIGN(StoredRows rows, write_slice(file, slice));
    datasets.push_back(std::move(rows));
  }
  FileImage image;
  MUSTER_ASSIGN(image.bytes, image_of(file));
  MUSTER_TRY(file.close("close a file in memory"));
  image.entry = describe(file_name, image.bytes);
  for (StoredRows& rows : datasets) {
    rows.sha256 = sha256_hex(image.bytes.data() + rows.offset, static_cast<std::size_t>(rows.bytes));
  }
  image.entry.datasets = std::move(datasets);
  return image;
}

Result<FileImage> build_master_image(const Manifest& manifest) {
  std::map<std::string_view, std::vector<Source>> sources;
  for (const StoredFile& stored : manifest.files) {
    for (const StoredRows& rows : stored.datasets) sources[rows.tensor].push_back({&stored, &rows});
  }
  const auto lock = hdf5_lock();
  MUSTER_ASSIGN(Hdf5Id file, create_in_memory(kMasterFile, 64U << 10));
  for (const TensorInfo& tensor : manifest.tensors) {
    MUSTER_TRY(write_virtual(file, tensor, sources[tensor.name]));
  }
  MUSTER_TRY(write_training_state(file, manifest));
  FileImage image;
  MUSTER_ASSIGN(image.bytes, image_of(file));
  MUSTER_TRY(file.close("close the master file"));
  image.entry = describe(kMasterFile, image.bytes);
  return image;
}

}  // namespace muster::checkpoint
