#include "trainer/export/parameter_file.h"
#include "trainer/handles/hdf5_handles.h"

namespace muster::exporting {
namespace {

Status write_attribute(const Hdf5Id& file, const std::string& name, const std::string& value) {
  MUSTER_ASSIGN(const Hdf5Id type, own(H5Tcopy(H5T_C_S1), H5Tclose, "make a text type"));
  MUSTER_TRY(check_hdf5(H5Tset_size(type.get(), value.size() + 1), "size a text type"));
  MUSTER_TRY(check_hdf5(H5Tset_cset(type.get(), H5T_CSET_UTF8), "choose UTF-8"));
  MUSTER_ASSIGN(const Hdf5Id space, own(H5Screate(H5S_SCALAR), H5Sclose, "create a dataspace"));
  MUSTER_ASSIGN(const Hdf5Id attribute,
                own(H5Acreate2(file.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
                    H5Aclose, fmt::format("create attribute {}", name)));
  return check_hdf5(H5Awrite(attribute.get(), type.get(), value.c_str()),
                    fmt::format("write attribute {}", name));
}

Status write_tensor(const Hdf5Id& file, const ExportedTensor& tensor) {
  const std::vector<hsize_t> extents(tensor.shape.begin(), tensor.shape.end());
  MUSTER_ASSIGN(const Hdf5Id space,
                own(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
                    "create a dataspace"));
  MUSTER_ASSIGN(const Hdf5Id properties,
                own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create dataset properties"));
  MUSTER_TRY(check_hdf5(H5Pset_layout(properties.get(), H5D_CONTIGUOUS), "choose a contiguous layout"));
  MUSTER_TRY(check_hdf5(H5Pset_obj_track_times(properties.get(), false), "switch times off"));
  MUSTER_ASSIGN(const Hdf5Id dataset, own(H5Dcreate2(file.get(), tensor.name.c_str(), H5T_IEEE_F32LE,
                                                     space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                                          H5Dclose, fmt::format("create dataset {}", tensor.name)));
  return check_hdf5(
      H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.values.data()),
      fmt::format("write dataset {}", tensor.name));
}

}  // namespace

Result<std::string> hdf5_bytes(const ParameterFile& parameters) {
  constexpr std::size_t kIncrement = std::size_t{1} << 20;
  const auto lock = hdf5_lock();
  MUSTER_ASSIGN(const Hdf5Id access,
                own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create file access properties"));
  MUSTER_TRY(check_hdf5(H5Pset_fapl_core(access.get(), kIncrement, false), "choose the core driver"));
  MUSTER_ASSIGN(Hdf5Id file, own(H5Fcreate("parameters", H5F_ACC_EXCL, H5P_DEFAULT, access.get()), H5Fclose,
                                 "create a file in memory"));
  for (const auto& [name, value] : parameters.metadata) MUSTER_TRY(write_attribute(file, name, value));
  for (const ExportedTensor& tensor : parameters.tensors) MUSTER_TRY(write_tensor(file, tensor));
  MUSTER_TRY(check_hdf5(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "flush a file in memory"));
  const ssize_t size = H5Fget_file_image(file.get(), nullptr, 0);
  if (size <= 0) return fail(ErrorCode::kInternal, "HDF5 cannot tell the size of a file image");
  std::string bytes(static_cast<std::size_t>(size), '\0');
  if (H5Fget_file_image(file.get(), bytes.data(), bytes.size()) != size)
    return fail(ErrorCode::kInternal, "HDF5 cannot hand out a file image of {} bytes", size);
  MUSTER_TRY(file.close("close a file in memory"));
  return bytes;
}

}  // namespace muster::exporting
