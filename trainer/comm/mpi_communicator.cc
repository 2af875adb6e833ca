#include "trainer/comm/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "trainer/comm/collective_communicator.h"
#include "trainer/comm/host_identity.h"
#include "trainer/comm/mpi_transport.h"
#include "trainer/comm/udp_liveness.h"

namespace muster::comm {
namespace {

template <std::size_t N>
using Text = std::array<char, N>;

template <std::size_t N>
Text<N> to_text(const std::string& text) {
  Text<N> result{};
  std::memcpy(result.data(), text.data(), std::min(text.size(), N - 1));
  return result;
}

// What each rank tells the others first.
struct Introduction {
  Text<128> host_identity{};
  Text<64> host_name{};
  std::uint64_t nonce = 0;
  std::uint64_t segment_bytes = 0;
  std::int64_t peer_timeout_ms = 0;
  std::int32_t generation = 0;
  Algorithm algorithm = Algorithm::kTree;
};

// Where its heartbeats are to be sent, or why it has no such place.
struct Rendezvous {
  UdpAddress address;
  bool is_ready = false;
  ErrorCode problem = ErrorCode::kInternal;
  Text<300> text{};
};

// Every rank's record, in rank order. Collective.
template <class Record>
Result<std::vector<Record>> exchange(const MpiComm& comm, int size, const Record& mine,
                                     const Deadline& deadline) {
  static_assert(std::is_trivially_copyable_v<Record>);
  std::vector<Record> all(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  // wait_mpi() waits for it, which the checker cannot know.
  // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker)
  MUSTER_TRY(check_mpi(
      MPI_Iallgather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE, comm.get(), &request),
      "MPI_Iallgather"));
  MUSTER_TRY(wait_mpi(request, deadline, "setting up the communicator"));
  return all;
}

Status check_agreement(const std::vector<Introduction>& all) {
  const auto compare = [&](const char* what, auto value_of) -> Status {
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      if (value_of(all[rank]) != value_of(all[0]))
        return fail(ErrorCode::kMismatch, "ranks 0 and {} disagree in the {}: {} on rank 0 and {} on rank {}",
                    rank, what, value_of(all[0]), value_of(all[rank]), rank);
    return {};
  };
  MUSTER_TRY(compare("generation", [](const Introduction& one) { return one.generation; }));
  MUSTER_TRY(compare("all-reduce algorithm",
                     [](const Introduction& one) { return make_reduction(one.algorithm)->name(); }));
  MUSTER_TRY(compare("peer timeout (ms)", [](const Introduction& one) { return one.peer_timeout_ms; }));
  return compare("segment length (bytes)", [](const Introduction& one) { return one.segment_bytes; });
}

Introduction introduce(const CommunicatorOptions& options) {
  std::random_device random;
  Introduction mine;
  mine.host_identity = to_text<128>(host_identity());
  mine.host_name = to_text<64>(host_name());
  mine.nonce = (static_cast<std::uint64_t>(random()) << 32) | random();
  mine.segment_bytes = options.segment_bytes;
  mine.peer_timeout_ms = options.peer_timeout.count();
  mine.generation = options.generation;
  mine.algorithm = options.algorithm;
  return mine;
}

Result<UdpSocket> open_socket(const std::vector<Introduction>& all, const CommunicatorOptions& options) {
  const bool share_a_host = std::all_of(all.begin(), all.end(), [&](const Introduction& one) {
    return one.host_identity == all.front().host_identity;
  });
  if (share_a_host) return UdpSocket::bind(loopback_address());
  if (options.network_interface.empty() && !options.master_address.empty())
    if (const auto address = address_towards(options.master_address)) return UdpSocket::bind(*address);
  MUSTER_ASSIGN(const UdpAddress address, interface_address(options.network_interface));
  return UdpSocket::bind(address);
}

Rendezvous describe_socket(const Result<UdpSocket>& socket) {
  Rendezvous mine;
  mine.is_ready = socket.has_value();
  if (socket) {
    mine.address = socket->address();
  } else {
    mine.problem = socket.error().code;
    mine.text = to_text<300>(socket.error().message);
  }
  return mine;
}

}  // namespace

Result<std::unique_ptr<Communicator>> make_mpi_communicator(const MpiSession& session,
                                                            const CommunicatorOptions& options) {
  const Deadline deadline = Deadline::after(options.setup_timeout);
  const int size = session.size();
  MUSTER_ASSIGN(MpiComm comm, MpiComm::duplicate_world(deadline));
  MUSTER_ASSIGN(const std::vector<Introduction> all, exchange(comm, size, introduce(options), deadline));
  MUSTER_TRY(check_agreement(all));

  Result<UdpSocket> socket = open_socket(all, options);
  MUSTER_ASSIGN(const std::vector<Rendezvous> meeting,
                exchange(comm, size, describe_socket(socket), deadline));
  UdpGroup group;
  group.rank = session.rank();
  group.nonce = all.front().nonce;
  group.generation = options.generation;
  group.peer_timeout = options.peer_timeout;
  for (std::size_t rank = 0; rank < meeting.size(); ++rank) {
    if (!meeting[rank].is_ready)
      return fail(meeting[rank].problem, "rank {} on host {}: {}", rank, all[rank].host_name.data(),
                  meeting[rank].text.data());
    group.addresses.push_back(meeting[rank].address);
    group.hosts.emplace_back(all[rank].host_name.data());
  }
  MUSTER_ASSIGN(auto liveness, make_udp_liveness(*std::move(socket), std::move(group)));
  MUSTER_ASSIGN(auto transport, make_mpi_transport(std::move(comm)));
  return std::make_unique<CollectiveCommunicator>(std::move(transport), std::move(liveness), options);
}

}  // namespace muster::comm
