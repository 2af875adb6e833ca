#include "tests/support/emulated_cluster.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new muster::testing::ClusterEnvironment);
  return RUN_ALL_TESTS();
}
