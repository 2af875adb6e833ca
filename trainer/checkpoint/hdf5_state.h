// The training state as plain HDF5, so that h5py and h5dump show it without any knowledge of muster.
#pragma once

#include "common/checkpoint/manifest.h"
#include "common/status.h"
#include "trainer/handles/hdf5_handles.h"

namespace muster::checkpoint {

// Root attributes: format, version, step, generation, world_size, created, code, metric (if there is one).
// /training_state: objects are groups; numbers, texts and truth values (as 0 or 1) are scalar datasets;
// arrays of numbers are one-dimensional datasets; anything else is its JSON as text. /training_state_json:
// all of it as one JSON text, which is what muster itself would read. The caller holds hdf5_lock().
Status write_training_state(const Hdf5Id& file, const Manifest& manifest);

}  // namespace muster::checkpoint
