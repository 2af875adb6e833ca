// Our all-reduce beside MPI_Allreduce: both sum the same fp32 buffer in place, in turns, in one process.
//
// Prints one JSON object (rank 0); for each length and method, of rank 0's clock:
//   microseconds: the median over the rounds of the longest time that any rank took for one call. The buffer
//     is written before and read after each call, outside the clock, as a trainer does.
//   bus_gb_per_s: 2 · (n − 1) / n · bytes / time: what each rank's memory must move at least, so that rank
//     counts can be compared.
//   ratio: MPI's time divided by the method's.
// Verified after each call: every element of every rank is the sum, and all ranks have the same bits.
// usage: mpirun -np N allreduce [rounds] [largest length in MiB]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/round_trip.h"
#include "trainer/comm/mpi_communicator.h"
#include "trainer/handles/mpi_handles.h"
#include "trainer/handles/mpi_session.h"

namespace {

using muster::ErrorCode;
using muster::fail;
using muster::Result;
using muster::Status;
namespace comm = muster::comm;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeout{120};
constexpr int kWarmupRounds = 2;
constexpr std::size_t kSmallestBytes = 1024;
constexpr std::size_t kLargestMib = 4096;

struct Method {
  std::string name;
  std::function<Status(float* data, std::size_t count)> all_reduce;
};

std::vector<Method> methods(comm::Communicator& ring, comm::Communicator& tree) {
  const auto ours = [](comm::Communicator& communicator) {
    return [&communicator](float* data, std::size_t count) {
      comm::CollectiveOptions options;
      options.timeout = kTimeout;
      return communicator.all_reduce(data, count, comm::DType::kFloat32, options)->wait();
    };
  };
  const auto mpi = [](float* data, std::size_t count) -> Status {
    return muster::check_mpi(
        MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
        "MPI_Allreduce");
  };
  return {
      {"MPI_Allreduce", mpi}, {std::string(ring.name()), ours(ring)}, {std::string(tree.name()), ours(tree)}};
}

// Small whole numbers, so that every order of adding gives the same exact sum.
float value_of(int rank, std::size_t element) { return static_cast<float>((element + 3) % 17 + rank); }

Status verify(const std::string& method, const float* data, std::size_t count, int ranks) {
  const int rank_sum = ranks * (ranks - 1) / 2;
  for (std::size_t i = 0; i < count; ++i) {
    const float expected =
        static_cast<float>((i + 3) % 17) * static_cast<float>(ranks) + static_cast<float>(rank_sum);
    if (data[i] != expected) {
      return fail(ErrorCode::kInternal, "{}: element {} of {} is {}, not {}", method, i, count, data[i],
                  expected);
    }
  }
  return {};
}

// The longest of any rank.
Result<double> timed(const Method& method, const muster::MpiSession& session, std::vector<float>& buffer) {
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = value_of(session.rank(), i);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = Clock::now();
  MUSTER_TRY(method.all_reduce(buffer.data(), buffer.size()));
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  MUSTER_TRY(verify(method.name, buffer.data(), buffer.size(), session.size()));
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

Result<nlohmann::json> measure(const std::vector<Method>& all, const muster::MpiSession& session,
                               std::size_t bytes, int rounds) {
  std::vector<float> buffer(bytes / sizeof(float));
  std::vector<std::vector<double>> seconds(all.size());
  for (int round = -kWarmupRounds; round < rounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      MUSTER_ASSIGN(const double took, timed(all[i], session, buffer));
      if (round >= 0) seconds[i].push_back(took);
    }
  }
  nlohmann::json row = {{"bytes", bytes}};
  double mpi_s = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<double>& times = seconds[i];
    std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
    const double median_s = times[static_cast<std::size_t>(rounds / 2)];
    if (i == 0) mpi_s = median_s;
    const double ranks = session.size();
    row["methods"][all[i].name] = {
        {"microseconds", median_s * 1e6},
        {"bus_gb_per_s", 2 * (ranks - 1) / ranks * static_cast<double>(bytes) / median_s / 1e9},
        {"ratio", mpi_s / median_s}};
  }
  return row;
}

Status run(int rounds, std::size_t largest_bytes) {
  MUSTER_ASSIGN(const auto session, muster::MpiSession::start({}));
  {
    comm::CommunicatorOptions options;
    options.algorithm = comm::Algorithm::kRing;
    MUSTER_ASSIGN(const auto ring, comm::make_mpi_communicator(*session, options));
    options.algorithm = comm::Algorithm::kTree;
    MUSTER_ASSIGN(const auto tree, comm::make_mpi_communicator(*session, options));
    const std::vector<Method> all = methods(*ring, *tree);
    nlohmann::json rows = nlohmann::json::array();
    for (std::size_t bytes = kSmallestBytes; bytes <= largest_bytes; bytes *= 16) {
      MUSTER_ASSIGN(nlohmann::json row, measure(all, *session, bytes, rounds));
      rows.push_back(std::move(row));
    }
    if (session->rank() == 0) {
      const nlohmann::json report = {{"benchmark", "allreduce"},
                                     {"ranks", session->size()},
                                     {"rounds", rounds},
                                     {"core_round_trip_ns", muster::benchmarks::core_round_trip_ns()},
                                     {"results", rows}};
      fmt::print("{}\n", report.dump(2));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return session->finish();
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const int largest_mib = argc > 2 ? std::atoi(argv[2]) : 64;
  if (rounds < 1 || largest_mib < 1 || static_cast<std::size_t>(largest_mib) > kLargestMib) {
    fmt::print(stderr, "usage: mpirun -np N allreduce [rounds] [largest length in MiB, up to {}]\n",
               kLargestMib);
    return 64;
  }
  const Status status = run(rounds, static_cast<std::size_t>(largest_mib) << 20);
  if (!status) {
    fmt::print(stderr, "allreduce: {}\n", status.error().message);
    std::fflush(nullptr);
    std::_Exit(1);  // MPI_Finalize could wait for the others
  }
  return 0;
}
