// main() of tests that run under mpirun: every rank runs every test, rank 0 tells of them, and the others
// tell only of failures.
#pragma once

#include "trainer/handles/mpi_session.h"

namespace muster::testing {

// Started before the first test.
const MpiSession& mpi_session();

}  // namespace muster::testing
