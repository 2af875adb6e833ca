// The quickstart's task, as it is shipped: examples/mnist.yaml on 2 workers.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/run_contract.h"
#include "tests/support/run_under_test.h"

namespace muster {
namespace {

using nlohmann::json;

// examples/mnist.yaml without its checkpoint_path, for a test's own directory.
std::string shipped_task() {
  const std::string examples = std::string(MUSTER_SOURCE_DIR) + "/examples";
  std::ifstream in(examples + "/mnist.yaml");
  std::string text;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("checkpoint_path:")) continue;
    const std::size_t variable = line.find("${TASK_DIR}");
    if (variable != std::string::npos && !line.starts_with("#")) line.replace(variable, 11, examples);
    text += line + "\n";
  }
  return text;
}

TEST(MainJob, ReachesNinetyFourPercentOnHeldOutDigitsWithinAMinute) {
  testing::RunUnderTest run(shipped_task());
  run.start();
  ASSERT_EQ(run.wait(std::chrono::seconds(60)), 0) << run.output();
  json last;
  for (const json& e : run.events()) {
    if (e.at("event") == contract::event::kEvaluation) last = e;
  }
  ASSERT_FALSE(last.is_null());
  EXPECT_EQ(last.at("samples"), 2000);
  EXPECT_GE(last.at("accuracy").get<double>(), 0.94);
  EXPECT_EQ(run.hash().size(), 64u);

  // The same command again trains nothing.
  const std::size_t events_before = run.events().size();
  ASSERT_EQ(run.run(), 0);
  EXPECT_NE(run.output().find("already complete"), std::string::npos) << run.output();
  EXPECT_EQ(run.events().size(), events_before);
}

}  // namespace
}  // namespace muster
