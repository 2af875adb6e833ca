// Move-only ownership of HDF5 identifiers, HDF5's errors as Status, and the one lock around the library.
// HDF5 is not concurrent: whoever calls any H5 function, or destroys an Hdf5Id, holds hdf5_lock().
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string_view>

#include "common/status.h"

namespace muster {

// Process-wide. While it is held HDF5 prints nothing on its own.
[[nodiscard]] std::unique_lock<std::mutex> hdf5_lock();

class Hdf5Id {
 public:
  using Close = herr_t (*)(hid_t);

  Hdf5Id() = default;
  Hdf5Id(hid_t id, Close closer) : id_(id), close_(closer) {}
  Hdf5Id(Hdf5Id&& other) noexcept;
  Hdf5Id& operator=(Hdf5Id&& other) noexcept;
  Hdf5Id(const Hdf5Id&) = delete;
  Hdf5Id& operator=(const Hdf5Id&) = delete;
  ~Hdf5Id();

  hid_t get() const { return id_; }
  // For files, where closing can fail: closes now and tells. The destructor ignores errors.
  Status close(std::string_view what);

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

// Takes ownership of what an H5…create or H5…open call returned, or says why it failed.
// MUSTER_ASSIGN(Hdf5Id space, own(H5Screate(H5S_SCALAR), H5Sclose, "create a dataspace"));
Result<Hdf5Id> own(hid_t id, Hdf5Id::Close close, std::string_view what);

// For calls that return herr_t.
Status check_hdf5(herr_t result, std::string_view what);

}  // namespace muster
