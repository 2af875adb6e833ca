#include "tests/mpi/mpi_test_main.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

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

int run_all(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
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
  const int result = RUN_ALL_TESTS();
  const Status finished = session->finish();
  if (!finished) std::fprintf(stderr, "%s\n", finished.error().message.c_str());
  return finished ? result : 1;
}

}  // namespace

const MpiSession& mpi_session() { return *session; }

}  // namespace muster::testing

int main(int argc, char** argv) { return muster::testing::run_all(argc, argv); }
