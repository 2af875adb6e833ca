#include "trainer/checkpoint/hdf5_state.h"

#include <algorithm>
#include <string>
#include <vector>

namespace muster::checkpoint {
namespace {

using nlohmann::json;

Result<Hdf5Id> scalar_space() { return own(H5Screate(H5S_SCALAR), H5Sclose, "create a scalar dataspace"); }

// A fixed-length UTF-8 text; HDF5 has no text of length 0, so an empty one is a single NUL.
Result<Hdf5Id> text_type(const std::string& text) {
  MUSTER_ASSIGN(Hdf5Id type, own(H5Tcopy(H5T_C_S1), H5Tclose, "create a text type"));
  MUSTER_TRY(check_hdf5(H5Tset_size(type.get(), std::max<std::size_t>(text.size(), 1)), "size a text type"));
  MUSTER_TRY(check_hdf5(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "pad a text type"));
  MUSTER_TRY(check_hdf5(H5Tset_cset(type.get(), H5T_CSET_UTF8), "make a text type UTF-8"));
  return type;
}

Status write_attribute(const Hdf5Id& object, const char* name, hid_t file_type, hid_t memory_type,
                       const void* data) {
  MUSTER_ASSIGN(const Hdf5Id space, scalar_space());
  MUSTER_ASSIGN(const Hdf5Id attribute,
                own(H5Acreate2(object.get(), name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                    H5Aclose, fmt::format("create attribute {}", name)));
  return check_hdf5(H5Awrite(attribute.get(), memory_type, data), fmt::format("write attribute {}", name));
}

Status integer_attribute(const Hdf5Id& object, const char* name, std::int64_t value) {
  return write_attribute(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

Status text_attribute(const Hdf5Id& object, const char* name, const std::string& value) {
  MUSTER_ASSIGN(const Hdf5Id type, text_type(value));
  return write_attribute(object, name, type.get(), type.get(), value.c_str());
}

// Writes into the group `parent`; names are UTF-8.
Status write_dataset(const Hdf5Id& parent, const std::string& name, const Hdf5Id& space, hid_t file_type,
                     hid_t memory_type, const void* data) {
  MUSTER_ASSIGN(const Hdf5Id links, own(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "create link properties"));
  MUSTER_TRY(check_hdf5(H5Pset_char_encoding(links.get(), H5T_CSET_UTF8), "ask for UTF-8 names"));
  MUSTER_ASSIGN(const Hdf5Id properties,
                own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create dataset properties"));
  MUSTER_TRY(check_hdf5(H5Pset_obj_track_times(properties.get(), false), "switch times off"));
  MUSTER_ASSIGN(const Hdf5Id dataset, own(H5Dcreate2(parent.get(), name.c_str(), file_type, space.get(),
                                                     links.get(), properties.get(), H5P_DEFAULT),
                                          H5Dclose, fmt::format("create dataset {}", name)));
  return check_hdf5(H5Dwrite(dataset.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data),
                    fmt::format("write dataset {}", name));
}

Status write_text(const Hdf5Id& parent, const std::string& name, const std::string& text) {
  MUSTER_ASSIGN(const Hdf5Id space, scalar_space());
  MUSTER_ASSIGN(const Hdf5Id type, text_type(text));
  return write_dataset(parent, name, space, type.get(), type.get(), text.c_str());
}

enum class NumberKind { kNone, kSigned, kUnsigned, kReal };

NumberKind kind_of(const json& value) {
  if (value.is_number_float()) return NumberKind::kReal;
  if (!value.is_number_integer()) return NumberKind::kNone;
  // Counters and seeds of random numbers may need the 64th bit.
  const bool large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  return large ? NumberKind::kUnsigned : NumberKind::kSigned;
}

// The kind that holds all elements exactly enough: none if they are not all numbers, or mix negative ones
// with huge ones.
NumberKind common_kind(const json& array) {
  NumberKind common = array.empty() ? NumberKind::kNone : kind_of(array.front());
  bool negative = false;
  for (const json& value : array) {
    const NumberKind kind = kind_of(value);
    if (kind == NumberKind::kNone || common == NumberKind::kNone) return NumberKind::kNone;
    negative = negative || value.get<double>() < 0;
    common = std::max(common, kind);
  }
  return common == NumberKind::kUnsigned && negative ? NumberKind::kNone : common;
}

Status write_numbers(const Hdf5Id& parent, const std::string& name, const Hdf5Id& space, const json& array) {
  switch (common_kind(array)) {
    case NumberKind::kReal: {
      const auto values = array.get<std::vector<double>>();
      return write_dataset(parent, name, space, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values.data());
    }
    case NumberKind::kUnsigned: {
      const auto values = array.get<std::vector<std::uint64_t>>();
      return write_dataset(parent, name, space, H5T_STD_U64LE, H5T_NATIVE_UINT64, values.data());
    }
    case NumberKind::kSigned: {
      const auto values = array.get<std::vector<std::int64_t>>();
      return write_dataset(parent, name, space, H5T_STD_I64LE, H5T_NATIVE_INT64, values.data());
    }
    case NumberKind::kNone:
      break;
  }
  return write_text(parent, name, array.dump());
}

bool all_keys_are_names(const json& object) {
  return std::all_of(object.items().begin(), object.items().end(), [](const auto& item) {
    const std::string& key = item.key();
    return !key.empty() && key != "." && key.find('/') == std::string::npos &&
           key.find('\0') == std::string::npos;
  });
}

Status write_tree(const Hdf5Id& parent, const std::string& name, const json& value) {
  if (value.is_object() && all_keys_are_names(value)) {
    MUSTER_ASSIGN(const Hdf5Id links, own(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "create link properties"));
    MUSTER_TRY(check_hdf5(H5Pset_char_encoding(links.get(), H5T_CSET_UTF8), "ask for UTF-8 names"));
    MUSTER_ASSIGN(const Hdf5Id group,
                  own(H5Gcreate2(parent.get(), name.c_str(), links.get(), H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
                      fmt::format("create group {}", name)));
    for (const auto& item : value.items()) MUSTER_TRY(write_tree(group, item.key(), item.value()));
    return {};
  }
  if (value.is_string()) return write_text(parent, name, value.get<std::string>());
  if (value.is_array() && common_kind(value) != NumberKind::kNone) {
    const hsize_t count = value.size();
    MUSTER_ASSIGN(const Hdf5Id space,
                  own(H5Screate_simple(1, &count, nullptr), H5Sclose, "create a dataspace"));
    return write_numbers(parent, name, space, value);
  }
  if (value.is_number() || value.is_boolean()) {
    MUSTER_ASSIGN(const Hdf5Id space, scalar_space());
    return write_numbers(parent, name, space,
                         json::array({value.is_boolean() ? json(value.get<bool>() ? 1 : 0) : value}));
  }
  return write_text(parent, name, value.dump());
}

}  // namespace

Status write_training_state(const Hdf5Id& file, const Manifest& manifest) {
  try {
    MUSTER_TRY(text_attribute(file, "format", "muster-checkpoint"));
    MUSTER_TRY(integer_attribute(file, "version", kManifestVersion));
    MUSTER_TRY(integer_attribute(file, "step", manifest.step));
    MUSTER_TRY(integer_attribute(file, "generation", manifest.generation));
    MUSTER_TRY(integer_attribute(file, "world_size", manifest.world_size));
    MUSTER_TRY(text_attribute(file, "created", manifest.created));
    MUSTER_TRY(text_attribute(file, "code", manifest.code));
    if (manifest.metric) {
      MUSTER_TRY(write_attribute(file, "metric", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &*manifest.metric));
    }
    MUSTER_TRY(write_tree(file, "training_state", manifest.state));
    return write_text(file, "training_state_json", manifest.state.dump());
  } catch (const json::exception& error) {
    return fail(ErrorCode::kInvalidArgument, "the training state cannot be written to HDF5: {}",
                error.what());
  }
}

}  // namespace muster::checkpoint
