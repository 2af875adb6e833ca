// Messages over MPI point-to-point: a header message, and when it is the expected one, the payload in pieces
// that MPI can count. MPI errors come back as kIo.
#pragma once

#include <cstddef>
#include <memory>

#include "trainer/comm/transport.h"
#include "trainer/handles/mpi_handles.h"

namespace muster::comm {

// piece_bytes: the longest single MPI message; MPI counts elements with an int.
Result<std::unique_ptr<Transport>> make_mpi_transport(MpiComm comm,
                                                      std::size_t piece_bytes = std::size_t{1} << 30);

}  // namespace muster::comm
