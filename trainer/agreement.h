// Collective agreement: one rank's failure is everybody's failure, and what must be equal is compared.
#pragma once

#include <string_view>

#include "common/status.h"
#include "trainer/comm/communicator.h"

namespace muster {

// Success only if every rank brings success; else, on every rank, the error that all of them bring (found
// together: nobody is named), or the first failing rank's error, naming it.
// Collective: every rank calls it, also one that failed.
Status agree(comm::Communicator& communicator, const Status& mine, const comm::CollectiveOptions& options);

// What only rank 0 did, for all: its outcome, on every rank. As it acted for all, it is not named.
Status follow_rank_0(comm::Communicator& communicator, const Status& mine,
                     const comm::CollectiveOptions& options);

// kMismatch, naming the ranks that differ from rank 0, unless `mine` is the same text on every rank.
Status require_equal(comm::Communicator& communicator, std::string_view what, std::string_view mine,
                     const comm::CollectiveOptions& options);

}  // namespace muster
