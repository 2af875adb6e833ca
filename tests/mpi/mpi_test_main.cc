#include "tests/mpi/mpi_test_main.h"

#include <gmock/gmock.h>

#include <cstdio>

#include "tests/support/test_outcome.h"
#include "trainer/handles/mpi_handles.h"

namespace muster::testing {
namespace {

std::unique_ptr<MpiSession> session;

class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: failure\n%s\n", session->rank(),
                 result.file_name() != nullptr ? result.file_name() : "?", result.line_number(),
                 result.summary());
  }
};

// The worst of all ranks: mpirun hands on the exit code that it sees first.
Outcome outcome_of_all(Outcome own) {
  int worst = static_cast<int>(own);
  MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return static_cast<Outcome>(worst);
}

int run_all(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  auto started = MpiSession::start({});
  if (!started) {
    std::fprintf(stderr, "%s\n", started.error().message.c_str());
    return 1;
  }
  session = *std::move(started);
  if (session->rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  const Outcome outcome = outcome_of_all(outcome_of_tests(RUN_ALL_TESTS()));
  const Status finished = session->finish();
  if (!finished) std::fprintf(stderr, "%s\n", finished.error().message.c_str());
  return exit_code_of(finished ? outcome : Outcome::kFailed);
}

}  // namespace

const MpiSession& mpi_session() { return *session; }

}  // namespace muster::testing

int main(int argc, char** argv) { return muster::testing::run_all(argc, argv); }
