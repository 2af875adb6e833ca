// Ending the muster that holds a run, for who wants the run gone rather than finished.
#pragma once

#include <chrono>

#include "common/status.h"
#include "launcher/run_directory.h"

namespace muster {

struct EndHolderPatience {
  std::chrono::milliseconds stop{3000};   // after the first SIGTERM (an orderly stop; mpirun alone takes 1 s)
  std::chrono::milliseconds kill{10000};  // after the second (kill the ranks)
  std::chrono::milliseconds end{20000};   // after SIGKILL, and then for what is left
};

// If the run is held by a muster of this machine: asks it to stop, asks it to kill its ranks, kills it; then
// ends what processes of the run are left. Nothing to do if nobody holds it, or somebody on another host,
// whom no signal reaches. kUnavailable, naming them, if processes cannot be ended; kIo if signals are
// refused.
Status end_lease_holder(const RunDirectory& run, const EndHolderPatience& patience = {});

}  // namespace muster
