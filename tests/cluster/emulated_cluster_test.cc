// The emulated cluster is one: real hosts to Slurm, apart from each other, cut and killed like real ones.
#include <gmock/gmock.h>

#include "tests/support/emulated_cluster.h"
#include "tests/support/eventually.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramResult;

class EmulatedClusterTest : public testing::ClusterTest {
 protected:
  // Asks Slurm until it says so.
  static bool eventually(const std::vector<std::string>& words, const std::string& wanted) {
    return testing::eventually(
        [&] { return cluster().on_controller(words).out.find(wanted) != std::string::npos; },
        std::chrono::seconds(120), std::chrono::milliseconds(200));
  }
  static std::vector<std::string> state_of(const std::string& node) {
    return {"sinfo", "-h", "-n", node, "-o", "%T"};
  }
};

TEST_F(EmulatedClusterTest, EveryTaskRunsOnItsOwnHost) {
  const ProgramResult result =
      cluster().on_controller({"srun", "-N4", "-n4", "sh", "-c", "echo $(hostname) $SLURM_PROCID"});
  EXPECT_EQ(result.exit_code, 0) << result;
  for (const char* line : {"n1 0\n", "n2 1\n", "n3 2\n", "n4 3\n"}) EXPECT_THAT(result.out, HasSubstr(line));
}

TEST_F(EmulatedClusterTest, HostsShareTheDirectoryAndNothingElse) {
  const std::string in_shared = (cluster().shared() / "seen").string();
  ASSERT_EQ(cluster().on("n1", {"touch", in_shared, "/tmp/own", "/dev/shm/own"}).exit_code, 0);
  EXPECT_EQ(cluster().on("n2", {"test", "-e", in_shared}).exit_code, 0);
  for (const char* path : {"/tmp/own", "/dev/shm/own"}) {
    EXPECT_EQ(cluster().on("n2", {"test", "-e", path}).exit_code, 1) << path;
  }
}

TEST_F(EmulatedClusterTest, AccountingKnowsWhatRan) {
  const ProgramResult job =
      cluster().on_controller({"sbatch", "--parsable", "--wait", "-o",
                               (cluster().shared() / "job.out").string(), "--qos=high", "--wrap=hostname"});
  ASSERT_EQ(job.exit_code, 0) << job;
  const std::string id = job.out.substr(0, job.out.find('\n'));
  EXPECT_TRUE(eventually({"sacct", "-X", "-n", "-j", id, "-o", "state,qos%10"}, "COMPLETED"));
}

TEST_F(EmulatedClusterTest, AKilledHostIsDownAndComesBack) {
  ASSERT_EQ(cluster().command({"kill", "n4"}).exit_code, 0);
  EXPECT_THAT(cluster().command({"exec", "n4", "true"}).err, HasSubstr("n4 is not running"));
  EXPECT_TRUE(eventually(state_of("n4"), "down"));
  ASSERT_EQ(cluster().command({"boot", "n4"}).exit_code, 0);
  EXPECT_TRUE(eventually(state_of("n4"), "idle"));
}

TEST_F(EmulatedClusterTest, ACutHostIsUnreachableUntilItIsHealed) {
  ASSERT_EQ(cluster().command({"cut", "n3"}).exit_code, 0);
  const std::vector<std::string> connect{"timeout", "2", "bash", "-c", "exec 3<>/dev/tcp/n3/6818"};
  EXPECT_NE(cluster().on_controller(connect).exit_code, 0);
  EXPECT_THAT(cluster().command({"status"}).out, HasSubstr("n3    10.77.0.13   cut"));
  ASSERT_EQ(cluster().command({"heal", "n3"}).exit_code, 0);
  EXPECT_EQ(cluster().on_controller(connect).exit_code, 0);
  EXPECT_THAT(cluster().command({"status"}).out, Not(HasSubstr("cut")));
}

TEST_F(EmulatedClusterTest, MistakesAreTold) {
  EXPECT_THAT(cluster().command({"up"}).err, HasSubstr("is up in"));
  EXPECT_THAT(cluster().command({"boot", "n1"}).err, HasSubstr("running already"));
  EXPECT_THAT(cluster().command({"boot", "n9"}).err, HasSubstr("no host n9"));
  EXPECT_THAT(cluster().command({"exec", "n9", "true"}).err, HasSubstr("no host n9"));
  EXPECT_THAT(cluster().command({"exec", "n1"}).err, HasSubstr("needs a command"));
}

}  // namespace
}  // namespace muster
