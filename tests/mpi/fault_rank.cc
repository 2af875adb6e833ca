// One rank of the fault tests (communicator_faults_test): started by mpirun, disturbed by the test from
// outside.
//   fault_rank SCENARIO DIRECTORY PEER_TIMEOUT_MS
// It tells the test how far it is by files: rank-N.pid once it is in the middle of a stream of collectives,
// rank-N.result ("ok" or an error code and message) at its end.
//   endless   all_reduce, step after step, until something fails
//   busy      rank 1 computes for three peer timeouts in mid-stream; later rank 0 stays on alone for as long
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/file_ops.h"
#include "common/run_contract.h"
#include "tests/support/eventually.h"
#include "trainer/comm/mpi_communicator.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string scenario;
  std::filesystem::path directory;
  std::chrono::milliseconds peer_timeout;
};

void tell(const Arguments& arguments, int rank, const char* suffix, const std::string& text) {
  const auto path = arguments.directory / fmt::format("rank-{}.{}", rank, suffix);
  if (!publish_file(posix_file_ops(), path, text)) _exit(1);
}

Status all_reduce_step(comm::Communicator& communicator, std::int64_t step) {
  static std::vector<float> data(10'000);  // outlives a broken communicator
  comm::CollectiveOptions options;
  options.step = step;
  return communicator.all_reduce(data.data(), data.size(), comm::DType::kFloat32, options)->wait();
}

void compute_for(std::chrono::milliseconds duration) {
  const auto end = Clock::now() + duration;
  volatile double sum = 0;
  while (Clock::now() < end) sum = sum + 1;
}

Status run_scenario(const Arguments& arguments, comm::Communicator& communicator) {
  const int rank = communicator.rank();
  constexpr int kSteps = 20;
  for (std::int64_t step = 0; step < kSteps || arguments.scenario == "endless"; ++step) {
    MUSTER_TRY(all_reduce_step(communicator, step));
    if (step == 5) tell(arguments, rank, "pid", std::to_string(getpid()));
    if (step == 10 && arguments.scenario == "busy" && rank == 1) compute_for(3 * arguments.peer_timeout);
  }
  return {};
}

Status run(const Arguments& arguments, std::unique_ptr<MpiSession>& session, int& rank) {
  MUSTER_ASSIGN(session, MpiSession::start({}));
  rank = session->rank();
  comm::CommunicatorOptions options;
  options.peer_timeout = arguments.peer_timeout;
  MUSTER_ASSIGN(auto communicator, comm::make_mpi_communicator(*session, options));
  MUSTER_TRY(run_scenario(arguments, *communicator));
  if (rank == 0) {  // the others are gone by then, and that is no fault
    if (testing::eventually([&] { return communicator->fault_rank().has_value(); },
                            2 * arguments.peer_timeout))
      return fail(ErrorCode::kPeerLost, "rank {} left in good order and was blamed",
                  *communicator->fault_rank());
  }
  return {};
}

int run_main(const Arguments& arguments) {
  std::unique_ptr<MpiSession> session;
  int rank = 0;
  const Status status = run(arguments, session, rank);
  if (!status) {
    tell(arguments, rank, "result",
         fmt::format("{}\n{}", static_cast<int>(status.error().code), status.error().message));
    _exit(contract::kExitRetry);
  }
  tell(arguments, rank, "result", "ok");
  return session->finish() ? 0 : 1;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return muster::run_main({argv[1], argv[2], std::chrono::milliseconds(std::atoi(argv[3]))});
}
