// The tasks for MNIST as they are shipped: examples/mnist.yaml and mnist_lenet.yaml on 2 workers.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/run_contract.h"
#include "tests/support/run_under_test.h"

namespace muster {
namespace {

using nlohmann::json;

// A file of examples/ without its checkpoint_path, for a test's own directory.
std::string shipped_task(const std::string& file) {
  const std::string examples = std::string(MUSTER_SOURCE_DIR) + "/examples";
  std::ifstream in(examples + "/" + file);
  std::string text;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("checkpoint_path:")) continue;
    const std::size_t variable = line.find("${TASK_DIR}");
    if (variable != std::string::npos && !line.starts_with("#")) line.replace(variable, 11, examples);
    text += line + "\n";
  }
  return text;
}

// The last evaluation's.
double accuracy_on_held_out_digits(testing::RunUnderTest& run) {
  json last;
  for (const json& e : run.events()) {
    if (e.at("event") == contract::event::kEvaluation) last = e;
  }
  if (last.is_null()) return 0;
  EXPECT_EQ(last.at("samples"), 2000);
  return last.at("accuracy").get<double>();
}

TEST(MainJob, ReachesNinetyFourPercentOnHeldOutDigitsWithinAMinute) {
  testing::RunUnderTest run(shipped_task("mnist.yaml"));
  run.start();
  ASSERT_EQ(run.wait(std::chrono::seconds(60)), 0) << run.output();
  EXPECT_GE(accuracy_on_held_out_digits(run), 0.94);
  EXPECT_EQ(run.hash().size(), 64u);

  // The same command again trains nothing.
  const std::size_t events_before = run.events().size();
  ASSERT_EQ(run.run(), 0);
  EXPECT_NE(run.output().find("already complete"), std::string::npos) << run.output();
  EXPECT_EQ(run.events().size(), events_before);
}

TEST(Lenet, ReachesNinetySevenAndAHalfPercentOnHeldOutDigits) {
  testing::RunUnderTest run(shipped_task("mnist_lenet.yaml"));
  run.start();
  ASSERT_EQ(run.wait(std::chrono::seconds(420)), 0) << run.output();
  EXPECT_GE(accuracy_on_held_out_digits(run), 0.975);
}

}  // namespace
}  // namespace muster
