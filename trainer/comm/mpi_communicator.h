// Communicators between the ranks of MPI_COMM_WORLD, with heartbeats over UDP. Free of mpi.h.
#pragma once

#include <memory>

#include "common/status.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/communicator_options.h"
#include "trainer/handles/mpi_session.h"

namespace muster::comm {

// Collective, within options.setup_timeout. Several may exist at once. If the ranks' options differ, or one
// of them cannot take part, all get the same error. The session outlives the communicator.
//
// After a failure of any one of them, drive no MPI communicator of this process any more.
Result<std::unique_ptr<Communicator>> make_mpi_communicator(const MpiSession& session,
                                                            const CommunicatorOptions& options);

}  // namespace muster::comm
