#include "trainer/data/hdf5_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <utility>

#include "common/checkpoint/read_only_file.h"
#include "common/file_ops.h"
#include "trainer/data/memory_dataset.h"
#include "trainer/handles/hdf5_handles.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kValuesMax = std::int64_t{1} << 40;
constexpr std::size_t kDimensionsMax = 4;

// "64-bit float", "16-bit signed integers"
std::string describe_type(const Hdf5Id& type) {
  const std::size_t bits = 8 * H5Tget_size(type.get());
  switch (H5Tget_class(type.get())) {
    case H5T_FLOAT:
      return fmt::format("{}-bit floats", bits);
    case H5T_INTEGER:
      return fmt::format("{}-bit {} integers", bits,
                         H5Tget_sign(type.get()) == H5T_SGN_NONE ? "unsigned" : "signed");
    case H5T_STRING:
      return "texts";
    default:
      return "another type";
  }
}

// One dataset of one file, opened.
struct Source {
  std::string name;  // "/data/train.h5: /x"
  Hdf5Id dataset;
  Hdf5Id type;
  std::vector<std::int64_t> shape;

  std::size_t values() const {
    std::size_t product = 1;
    for (const std::int64_t size : shape) product *= static_cast<std::size_t>(size);
    return product;
  }
};

// What HDF5 says about a file that should be readable means that the file is not as it should be.
template <class T>
Result<T> in_file(const std::string& name, Result<T> result) {
  if (result) return result;
  return fail(ErrorCode::kCorrupt, "{}: {}", name, result.error().message);
}

Result<std::vector<std::int64_t>> shape_of(const std::string& name, const Hdf5Id& dataset) {
  MUSTER_ASSIGN(const Hdf5Id space, own(H5Dget_space(dataset.get()), H5Sclose, "read its shape"));
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> extents(static_cast<std::size_t>(std::max(rank, 0)));
  if (rank < 0 || H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr) < 0)
    return fail(ErrorCode::kCorrupt, "{} has no shape", name);
  std::vector<std::int64_t> shape;
  std::int64_t values = 1;
  for (const hsize_t extent : extents) {
    if (extent == 0) return fail(ErrorCode::kCorrupt, "{}: dimension {} is 0", name, shape.size());
    if (extent > static_cast<hsize_t>(kValuesMax / values))
      return fail(ErrorCode::kCorrupt, "{}: its dimensions multiply to more than {} values", name,
                  kValuesMax);
    shape.push_back(static_cast<std::int64_t>(extent));
    values *= shape.back();
  }
  return shape;
}

Result<Source> open_dataset(const fs::path& path, const Hdf5Id& file, const char* dataset) {
  Source source;
  source.name = fmt::format("{}: {}", path.string(), dataset);
  if (H5Lexists(file.get(), dataset, H5P_DEFAULT) <= 0)
    return fail(ErrorCode::kCorrupt, "{}: there is no dataset {}; needed: /x (samples) and /y (labels)",
                path.string(), dataset);
  MUSTER_ASSIGN(source.dataset,
                in_file(path.string(), own(H5Dopen2(file.get(), dataset, H5P_DEFAULT), H5Dclose,
                                           fmt::format("open dataset {}", dataset))));
  MUSTER_ASSIGN(source.type,
                in_file(source.name, own(H5Dget_type(source.dataset.get()), H5Tclose, "read its type")));
  MUSTER_ASSIGN(source.shape, shape_of(source.name, source.dataset));
  return source;
}

// `memory`: the type of T. HDF5 converts widths and byte orders.
template <class T>
Status read_values(const Source& source, hid_t memory, std::vector<T>& values) {
  try {
    values.resize(source.values());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kUnavailable, "{}: out of memory for {} values", source.name, source.values());
  }
  const Status read = check_hdf5(
      H5Dread(source.dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "read its values");
  return in_file(source.name, read);
}

Status read_inputs(const Source& x, MemorySamples& samples) {
  const H5T_class_t kind = H5Tget_class(x.type.get());
  const std::size_t bytes = H5Tget_size(x.type.get());
  const bool is_byte = kind == H5T_INTEGER && bytes == 1 && H5Tget_sign(x.type.get()) == H5T_SGN_NONE;
  const bool is_float = kind == H5T_FLOAT && bytes == sizeof(float);
  if (!is_byte && !is_float) {
    return fail(ErrorCode::kCorrupt, "{} holds {}; allowed: 32-bit floats, 8-bit unsigned integers", x.name,
                describe_type(x.type));
  }
  if (x.shape.size() < 2 || x.shape.size() > kDimensionsMax) {
    return fail(ErrorCode::kCorrupt,
                "{} has shape [{}]; allowed: samples first, then 1 to {} dimensions of a sample", x.name,
                fmt::join(x.shape, ", "), kDimensionsMax - 1);
  }
  samples.inputs_name = x.name;
  samples.shape = x.shape;
  return is_byte ? read_values(x, H5T_NATIVE_UINT8, samples.bytes)
                 : read_values(x, H5T_NATIVE_FLOAT, samples.floats);
}

Status read_labels(const Source& y, MemorySamples& samples) {
  if (H5Tget_class(y.type.get()) != H5T_INTEGER) {
    return fail(ErrorCode::kCorrupt, "{} holds {}; allowed: integers", y.name, describe_type(y.type));
  }
  if (y.shape.size() != 1) {
    return fail(ErrorCode::kCorrupt, "{} has shape [{}]; allowed: one dimension, a label for each sample",
                y.name, fmt::join(y.shape, ", "));
  }
  std::vector<std::int64_t> labels;
  MUSTER_TRY(read_values(y, H5T_NATIVE_INT64, labels));
  samples.labels_name = y.name;
  samples.labels.reserve(labels.size());
  for (const std::int64_t label : labels) {
    if (label < 0 || label >= kClassesMax) {
      return fail(ErrorCode::kCorrupt, "{}: label {} of sample {} is out of range: labels are 0 to {}",
                  y.name, label, samples.labels.size(), kClassesMax - 1);
    }
    samples.labels.push_back(static_cast<std::int32_t>(label));
  }
  return {};
}

Result<Hdf5Id> open_file(const fs::path& path) {
  MUSTER_ASSIGN(const bool is_there, file_exists(posix_file_ops(), path));
  if (!is_there)
    return fail(ErrorCode::kNotFound, "{} has no {}", path.parent_path().string(), path.filename().string());
  // What HDF5 cannot read it calls no HDF5 file; a disk that fails for a moment does not make it one.
  MUSTER_ASSIGN(const auto file, checkpoint::ReadOnlyFile::open(path));
  MUSTER_ASSIGN(const std::int64_t size, file.size());
  MUSTER_TRY(file.sha256(0, std::min<std::int64_t>(size, 4096)));
  if (H5Fis_hdf5(path.c_str()) <= 0)
    return fail(ErrorCode::kCorrupt, "{} is not an HDF5 file", path.string());
  MUSTER_ASSIGN(const Hdf5Id access,
                own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create file access properties"));
  MUSTER_TRY(check_hdf5(H5Pset_file_locking(access.get(), false, true), "switch file locking off"));
  return in_file(path.string(),
                 own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose, "open it"));
}

Result<MemorySamples> read_file(const fs::path& path) {
  const auto lock = hdf5_lock();
  MUSTER_ASSIGN(const Hdf5Id file, open_file(path));
  MUSTER_ASSIGN(const Source x, open_dataset(path, file, "/x"));
  MUSTER_ASSIGN(const Source y, open_dataset(path, file, "/y"));
  MemorySamples samples;
  MUSTER_TRY(read_inputs(x, samples));
  MUSTER_TRY(read_labels(y, samples));
  return samples;
}

}  // namespace

Result<DatasetPair> load_hdf5_datasets(const fs::path& directory) {
  MUSTER_TRY(require_data_directory(directory));
  MUSTER_ASSIGN(MemorySamples train, read_file(directory / "train.h5"));
  MUSTER_ASSIGN(MemorySamples test, read_file(directory / "test.h5"));
  return pair_in_memory("hdf5", std::move(train), std::move(test));
}

}  // namespace muster::data
