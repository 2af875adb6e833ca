// main() of every test executable that has none of its own.
#include <gmock/gmock.h>

#include "tests/support/test_outcome.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  return muster::testing::exit_code_of(muster::testing::outcome_of_tests(RUN_ALL_TESTS()));
}
