// The exit code of a GoogleTest executable, so that ctest can tell failed, skipped and passed apart.
#pragma once

namespace muster::testing {

// The worst that happened; ordered, so that of several processes the greatest one counts.
enum class Outcome { kPassed, kSkipped, kFailed };

// Of the tests that RUN_ALL_TESTS() has just run, `result` being what it returned. A failure outweighs any
// number of skipped tests; those that passed do not outweigh a skipped one, as ctest knows only one word for
// the whole executable. The output names the skipped ones.
Outcome outcome_of_tests(int result);

// 0, 77 (SKIP_RETURN_CODE in cmake/MusterTargets.cmake) or 1.
int exit_code_of(Outcome outcome);

}  // namespace muster::testing
