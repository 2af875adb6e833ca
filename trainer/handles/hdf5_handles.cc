#include "trainer/handles/hdf5_handles.h"

#include <string>
#include <utility>

namespace muster {
namespace {

// The innermost entry of HDF5's error stack tells the cause.
herr_t keep_innermost(unsigned, const H5E_error2_t* entry, void* text) {
  *static_cast<std::string*>(text) = fmt::format("{}: {}", entry->func_name, entry->desc);
  return 1;  // stop walking
}

tl::unexpected<Error> hdf5_failure(std::string_view what) {
  std::string cause = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &cause);
  H5Eclear2(H5E_DEFAULT);
  return fail(ErrorCode::kInternal, "HDF5 cannot {}: {}", what, cause);
}

}  // namespace

std::unique_lock<std::mutex> hdf5_lock() {
  static std::mutex mutex;
  std::unique_lock lock(mutex);
  // Per thread in thread-safe builds of HDF5, hence at each locking.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  return lock;
}

Hdf5Id::Hdf5Id(Hdf5Id&& other) noexcept
    : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}

Hdf5Id& Hdf5Id::operator=(Hdf5Id&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(close_, other.close_);
  return *this;
}

Hdf5Id::~Hdf5Id() {
  if (id_ >= 0) close_(id_);
}

Status Hdf5Id::close(std::string_view what) {
  return check_hdf5(close_(std::exchange(id_, H5I_INVALID_HID)), what);
}

Result<Hdf5Id> own(hid_t id, Hdf5Id::Close close, std::string_view what) {
  if (id < 0) return hdf5_failure(what);
  return Hdf5Id(id, close);
}

Status check_hdf5(herr_t result, std::string_view what) {
  if (result < 0) return hdf5_failure(what);
  return {};
}

}  // namespace muster
