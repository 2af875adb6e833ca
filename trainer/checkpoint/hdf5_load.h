// Finding the checkpoint to resume from: the newest committed one of which every byte is what was written.
#pragma once

#include <cstdint>

#include "trainer/checkpoint/checkpoint_directory.h"
#include "trainer/checkpoint/checkpoint_store.h"

namespace muster::checkpoint {

// Collective. The ranks share out the files to verify. Needs no HDF5: tensors are read by the manifest's
// offsets.
Result<LoadOutcome> load_latest_collectively(CheckpointDirectory& directory, const Group& group,
                                             std::int32_t generation);

}  // namespace muster::checkpoint
