#include "trainer/rank.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/run_contract.h"
#include "trainer/comm/mpi_communicator.h"
#include "trainer/exit_codes.h"

namespace muster {

Status make_communicator(Rank& rank, const TrainerOptions& options, std::int32_t generation) {
  comm::CommunicatorOptions communicator;
  communicator.algorithm = options.allreduce == "tree" ? comm::Algorithm::kTree : comm::Algorithm::kRing;
  communicator.generation = generation;
  communicator.peer_timeout = options.peer_timeout;
  if (const char* interface = std::getenv(contract::kNetworkInterface))
    communicator.network_interface = interface;
  if (const char* master = std::getenv(contract::kMasterAddr)) communicator.master_address = master;
  MUSTER_ASSIGN(rank.communicator, comm::make_mpi_communicator(*rank.session, communicator));
  if (rank.channel) {
    // Unsupervised, this rank could write what a successor does not expect: it fences itself.
    rank.channel->on_disconnect(
        [communicator_ptr = rank.communicator.get()] { communicator_ptr->abort("the supervisor is gone"); });
  }
  return {};
}

void flush_events(Rank& rank) {
  constexpr std::chrono::seconds kPatience{5};
  if (!rank.channel) return;
  if (const Status flushed = rank.channel->flush(Deadline::after(kPatience)); !flushed) {
    fmt::print(stderr, "muster-train: the last events were not delivered: {}\n", flushed.error().message);
  }
}

Status finish(Rank& rank) {
  rank.store.reset();
  if (rank.channel) rank.channel->on_disconnect([] {});
  rank.communicator.reset();
  return rank.session->finish();
}

void leave_after_fault(Rank& rank, const Error& error) {
  const int code = exit_code_of(error);
  const std::string who = fmt::format("rank {}: ", rank.rank());
  const bool is_named = error.message.starts_with(who);  // by an agreement on whose failure it is
  fmt::print(stderr, "muster-train: {}{}\n", is_named ? "" : who, error.message);
  // Before abort(), which makes this rank the one that gave up.
  std::optional<int> blamed;
  if (rank.communicator && is_communication_fault(error)) blamed = rank.communicator->fault_rank();
  if (rank.communicator) rank.communicator->abort(error.message);
  if (rank.events) {
    rank.events->emit({{"event", contract::event::kFault},
                       {"exit_code", code},
                       {"reason", error.message},
                       {"peer", blamed ? nlohmann::json(*blamed) : nlohmann::json(nullptr)}});
  }
  flush_events(rank);
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace muster
