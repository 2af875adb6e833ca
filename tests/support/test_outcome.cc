#include "tests/support/test_outcome.h"

#include <gtest/gtest.h>

namespace muster::testing {

Outcome outcome_of_tests(int result) {
  constexpr int kSuccess = 0;
  const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  if (result != kSuccess || !tests.Passed()) return Outcome::kFailed;
  // The second: skipped for all tests at once, by an environment; then none of them counts as skipped.
  const bool skipped = tests.skipped_test_count() > 0 || tests.ad_hoc_test_result().Skipped();
  return skipped ? Outcome::kSkipped : Outcome::kPassed;
}

int exit_code_of(Outcome outcome) {
  constexpr int kSkippedCode = 77;
  switch (outcome) {
    case Outcome::kPassed:
      return 0;
    case Outcome::kSkipped:
      return kSkippedCode;
    case Outcome::kFailed:
      break;
  }
  return 1;
}

}  // namespace muster::testing
