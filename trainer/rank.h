// What one rank of muster-train consists of, in the order in which it must be taken down, and how it leaves.
#pragma once

#include <memory>

#include "common/event_channel.h"
#include "common/status.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/comm/communicator.h"
#include "trainer/console_sink.h"
#include "trainer/device/device.h"
#include "trainer/handles/mpi_session.h"
#include "trainer/options.h"
#include "trainer/requested_saves.h"

namespace muster {

struct Rank {
  RequestedSaves requested_saves;
  std::unique_ptr<MpiSession> session;
  std::unique_ptr<EventChannel> channel;  // null: nobody listens
  ConsoleSink console;
  std::unique_ptr<TeeSink> events;  // null before there are any
  std::unique_ptr<device::Device> device;
  std::unique_ptr<comm::Communicator> communicator;
  std::unique_ptr<checkpoint::CheckpointStore> store;  // null: no checkpoints

  int rank() const { return session ? session->rank() : 0; }
};

// Over rank.session; the interface and the master's address come from the environment
// (common/run_contract.h).
Status make_communicator(Rank& rank, const TrainerOptions& options, std::int32_t generation);

// Waits a few seconds until the last events are delivered.
void flush_events(Rank& rank);

// The clean way out: drops the communicator and finishes MPI. After an error leave by leave_after_fault().
Status finish(Rank& rank);

// After a fault MPI_Finalize could wait for the dead: reports, and ends the process by _exit.
[[noreturn]] void leave_after_fault(Rank& rank, const Error& error);

}  // namespace muster
