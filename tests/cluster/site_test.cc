// `muster site detect` asks a real Slurm, and what it writes is a site profile.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/run_contract.h"
#include "tests/support/emulated_cluster.h"

namespace muster {
namespace {

using nlohmann::json;
using testing::ProgramResult;

class SiteTest : public testing::ClusterTest {};

TEST_F(SiteTest, DetectsTheClusterAndShowsIt) {
  const std::string muster = testing::built_program("muster");
  const std::string file = (cluster().shared() / "site.yaml").string();
  const ProgramResult detected = cluster().on_controller({muster, "site", "detect", "--output", file});
  ASSERT_EQ(detected.exit_code, contract::kMusterOk) << detected;
  EXPECT_EQ(detected.err, "");
  testing::ProgramOptions options;
  options.set = {{"MUSTER_SITE", file}, {"XDG_CONFIG_HOME", cluster().shared().string()}};
  const ProgramResult shown = cluster().on_controller({muster, "site", "show", "--json"}, options);
  ASSERT_EQ(shown.exit_code, contract::kMusterOk) << shown;
  const json settings = json::parse(shown.out).at("settings");
  const auto value = [&](const char* key) { return settings.at(key).at("value"); };
  EXPECT_EQ(value("cluster"), "emulated");
  EXPECT_EQ(value("priority.low.qos"), "low");
  EXPECT_EQ(value("priority.normal.qos"), "normal");
  EXPECT_EQ(value("priority.high.qos"), "high");
  EXPECT_EQ(value("process_start"), "srun+pmix");
  EXPECT_EQ(value("preemption.type"), "preempt/qos");
  EXPECT_EQ(value("preemption.mode"), "REQUEUE");
  EXPECT_EQ(value("preemption.grace"), 15'000);
  EXPECT_EQ(value("requeue_hold"), 120'000);
  EXPECT_EQ(value("job_requeue"), true);
  EXPECT_EQ(value("accounting"), true);
  EXPECT_EQ(settings.at("requeue_hold").at("file"), file);
}

// A user whom the accounting does not know learns that, and gets a profile all the same.
TEST_F(SiteTest, AUserWithoutAnAccountIsTold) {
  const ProgramResult detected =
      cluster().on_controller({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                               testing::built_program("muster"), "site", "detect"});
  ASSERT_EQ(detected.exit_code, contract::kMusterOk) << detected;
  EXPECT_THAT(detected.err, ::testing::HasSubstr("the accounting knows no association of nobody here"));
}

}  // namespace
}  // namespace muster
