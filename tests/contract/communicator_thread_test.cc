// The communicator's contract on threads of one process, and what only threads can show.
#include <thread>

#include "tests/contract/communicator_contract.h"
#include "tests/contract/communicator_contract_faults.h"
#include "trainer/comm/thread_communicator.h"

namespace muster::comm::contract {

namespace {

void run_threads(ThreadCommunicators group, const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (auto& communicator : group.ranks)
    threads.emplace_back([&body, mine = std::move(communicator)]() mutable {
      body(*mine);
      mine.reset();
    });
  for (std::thread& thread : threads) thread.join();
}

std::vector<Group> groups() {
  std::vector<Group> all;
  for (const Algorithm algorithm : {Algorithm::kTree, Algorithm::kRing})
    for (const int size : {1, 2, 3, 4, 5, 8}) all.push_back({algorithm, size});
  return all;
}

}  // namespace

void run_ranks(const CommunicatorOptions& options, int size, const std::function<void(Communicator&)>& body) {
  run_threads(make_thread_communicators(size, options), body);
}

INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorContract, ::testing::ValuesIn(groups()), name_of_group);

TEST(ThreadCommunicator, ASilentRankIsLostAndNamed) {
  CommunicatorOptions options;
  options.peer_timeout = std::chrono::milliseconds(200);
  ThreadCommunicators group = make_thread_communicators(3, options);
  group.liveness->silence(1);
  const auto silent = std::move(group.ranks[1]);
  group.ranks.erase(group.ranks.begin() + 1);
  run_threads(std::move(group), [](Communicator& c) {
    const Status status = c.barrier(of_step(1))->wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kPeerLost);
    EXPECT_EQ(status.error().message, "rank 1 in this process gave no sign of life for 0.2 s");
    EXPECT_EQ(c.fault_rank(), 1);
  });
}

TEST(ThreadCommunicator, ARankThatEndedInGoodOrderIsNotWaitedForLong) {
  CommunicatorOptions options;
  options.peer_timeout = std::chrono::milliseconds(200);
  run_threads(make_thread_communicators(3, options), [](Communicator& c) {
    if (c.rank() == 2) return;
    const Status status = c.barrier(of_step(1))->wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kPeerLost);
    EXPECT_THAT(status.error().message, ::testing::HasSubstr("rank 2 in this process has ended"));
  });
}

TEST(ThreadCommunicator, MessagesOfAnotherGenerationAreRefused) {
  std::vector<CommunicatorOptions> options(4);
  for (CommunicatorOptions& one : options) one.generation = 5;
  options[2].generation = 4;
  run_threads(make_thread_communicators(options), [](Communicator& c) {
    std::vector<float> data(10);
    const Status status = c.all_reduce(data.data(), data.size(), DType::kFloat32, of_step(1))->wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kMismatch);
    EXPECT_THAT(status.error().message, ::testing::HasSubstr("the generation is"));
    EXPECT_THAT(status.error().message, ::testing::HasSubstr("4 on rank 2"));
  });
}

TEST(ThreadCommunicator, AlgorithmsDoNotMix) {
  std::vector<CommunicatorOptions> options(2);
  options[1].algorithm = Algorithm::kRing;
  run_threads(make_thread_communicators(options), [](Communicator& c) {
    EXPECT_EQ(c.name(), c.rank() == 0 ? "tree/threads" : "ring/threads");
    float value = 1;
    const Status status = c.all_reduce(&value, 1, DType::kFloat32, of_step(1))->wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kMismatch);
  });
}

}  // namespace muster::comm::contract
