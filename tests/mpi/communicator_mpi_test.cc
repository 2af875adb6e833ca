// The communicator's contract between the ranks of mpirun.
#include <unistd.h>

#include <cstdio>

#include "tests/contract/communicator_contract.h"
#include "tests/contract/communicator_contract_faults.h"
#include "tests/mpi/mpi_test_main.h"
#include "trainer/comm/mpi_communicator.h"
#include "trainer/comm/mpi_transport.h"

namespace muster::comm::contract {

void run_ranks(const CommunicatorOptions& options, int /*size*/,
               const std::function<void(Communicator&)>& body) {
  auto communicator = make_mpi_communicator(testing::mpi_session(), options);
  ASSERT_TRUE(communicator) << communicator.error().message;
  body(**communicator);
}

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorContract,
                         ::testing::Values(Group{Algorithm::kTree, 0}, Group{Algorithm::kRing, 0}),
                         name_of_group);

TEST(MpiCommunicator, RanksOfDifferentGenerationsDoNotComeTogether) {
  const MpiSession& session = testing::mpi_session();
  if (session.size() == 1) return;
  CommunicatorOptions options;
  options.generation = session.rank() == session.size() - 1 ? 4 : 5;
  const auto communicator = make_mpi_communicator(session, options);
  ASSERT_FALSE(communicator);
  EXPECT_EQ(communicator.error().code, ErrorCode::kMismatch);
  EXPECT_EQ(communicator.error().message,
            fmt::format("ranks 0 and {0} disagree in the generation: 5 on rank 0 and 4 on rank {0}",
                        session.size() - 1));
}

TEST(MpiTransport, LongMessagesTravelInPieces) {
  auto transport =
      make_mpi_transport(MpiComm::duplicate_world(Deadline::after(kGenerous)).value(), 100).value();
  const int right = (transport->rank() + 1) % transport->size();
  const int left = (transport->rank() + transport->size() - 1) % transport->size();
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{99}, std::size_t{100}, std::size_t{101}, std::size_t{12345}}) {
    std::vector<std::byte> sent(bytes);
    std::vector<std::byte> got(bytes);
    for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<std::byte>(i % 251);
    MessageHeader header;
    header.sequence = bytes;
    header.payload_bytes = bytes;
    auto receive = transport->post_receive(left, header, got).value();
    auto send = transport->post_send(right, header, sent).value();
    bool is_sent = false;
    bool is_received = false;
    const Deadline deadline = Deadline::after(kGenerous);
    while (!(is_sent && is_received)) {
      ASSERT_FALSE(deadline.expired());
      is_sent = is_sent || send->test().value();
      is_received = is_received || receive->test().value();
    }
    EXPECT_EQ(got, sent);
  }
}

TEST(MpiCommunicator, NamesAndNumbers) {
  const MpiSession& session = testing::mpi_session();
  CommunicatorOptions options;
  options.generation = 9;
  options.algorithm = Algorithm::kRing;
  auto ring = make_mpi_communicator(session, options);
  ASSERT_TRUE(ring);
  options.algorithm = Algorithm::kTree;
  auto tree = make_mpi_communicator(session, options);
  ASSERT_TRUE(tree);
  EXPECT_EQ((*ring)->name(), "ring/mpi");
  EXPECT_EQ((*tree)->name(), "tree/mpi");
  EXPECT_EQ((*tree)->rank(), session.rank());
  EXPECT_EQ((*tree)->size(), session.size());
  EXPECT_EQ((*tree)->generation(), 9);
  EXPECT_TRUE((*ring)->barrier(of_step(1))->wait());
  EXPECT_TRUE((*tree)->barrier(of_step(1))->wait());
}

}  // namespace muster::comm::contract
