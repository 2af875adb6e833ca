// `srun muster exec` in somebody's own allocation: the run contract with nothing else adopted.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/run_contract.h"
#include "tests/support/emulated_cluster.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ProgramOptions;
using testing::ProgramResult;

using Words = std::vector<std::string>;

class SrunExecTest : public testing::ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    if (IsSkipped()) return;
    out_ = cluster().shared() / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directory(out_);
    options_.set = {{"OUT", out_.string()}};
  }

  ProgramResult srun(const Words& placement, const Words& command) const {
    Words words{"srun"};
    words.insert(words.end(), placement.begin(), placement.end());
    words.insert(words.end(), {testing::built_program("muster"), "exec", "--"});
    words.insert(words.end(), command.begin(), command.end());
    return cluster().on_controller(words, options_);
  }

  static Words meeting() {
    return {"python3", std::string(MUSTER_SOURCE_DIR) + "/tests/support/meet_at_master.py"};
  }

  Words of_all(const std::string& name, int ranks) const {
    Words values;
    for (int rank = 0; rank < ranks; ++rank) {
      std::ifstream in(out_ / ("rank-" + std::to_string(rank) + ".json"));
      const json told = json::parse(in, nullptr, false);
      if (!told.is_object()) {
        values.emplace_back("nothing");
      } else {
        values.push_back(name == "host" ? told.at("host") : told.at("environment").at(name));
      }
    }
    return values;
  }

  fs::path out_;
  ProgramOptions options_;
};

TEST_F(SrunExecTest, RanksOnSeveralNodesFindEachOther) {
  const ProgramResult result = srun({"-N3", "-n5"}, meeting());
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(of_all("RANK", 5), ElementsAre("0", "1", "2", "3", "4"));
  EXPECT_THAT(of_all("WORLD_SIZE", 5), Each("5"));
  const Words hosts = of_all("host", 5);
  EXPECT_THAT(of_all("NODE_RANK", 5),
              ElementsAre("0", hosts[1] == hosts[0] ? "0" : "1", ::testing::_, ::testing::_, "2"));
  EXPECT_THAT(of_all("MASTER_ADDR", 5), Each("10.77.0.1" + hosts[0].substr(1)));
  EXPECT_THAT(of_all("MASTER_PORT", 5), Each(of_all("MASTER_PORT", 1)[0]));
}

TEST_F(SrunExecTest, WithoutPmixToo) {
  const ProgramResult result =
      srun({"--mpi=none", "-N2", "--ntasks-per-node=2", "--distribution=cyclic"}, meeting());
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(of_all("NODE_RANK", 4), ElementsAre("0", "1", "0", "1"));
  EXPECT_THAT(of_all("LOCAL_RANK", 4), ElementsAre("0", "0", "1", "1"));
  EXPECT_THAT(of_all("LOCAL_WORLD_SIZE", 4), Each("2"));
}

TEST_F(SrunExecTest, AProgramsExitCodeIsTheSteps) {
  EXPECT_EQ(srun({"-N2", "-n2"}, {"sh", "-c", "exit $((RANK * 3))"}).exit_code, 3);
}

TEST_F(SrunExecTest, AnMpiProgramOverSeveralNodes) {
  const fs::path checkpoints = out_ / "checkpoints";
  const ProgramResult result =
      srun({"-N2", "-n2"}, {testing::built_program("muster-train"), "--data-path",
                            std::string(MUSTER_SOURCE_DIR) + "/examples/data/digits8x8", "--hidden", "16",
                            "--steps", "4", "--checkpoint-dir", checkpoints.string()});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(
      testing::run_program({testing::built_program("muster"), "checkpoint", "verify", checkpoints.string()})
          .exit_code,
      0);
}

// Without PMIx each process of the step would be an MPI world of its own: two trainings that look like one.
// Open MPI sees Slurm's variables and gives up; where it sees none, muster-train does.
TEST_F(SrunExecTest, AnMpiProgramWithoutPmixIsRefused) {
  const fs::path checkpoints = out_ / "checkpoints";
  const Words train{testing::built_program("muster-train"),
                    "--data-path",
                    std::string(MUSTER_SOURCE_DIR) + "/examples/data/digits8x8",
                    "--hidden",
                    "16",
                    "--steps",
                    "4",
                    "--checkpoint-dir",
                    checkpoints.string()};
  const Words placement{"--mpi=none", "-N2", "-n2"};
  const ProgramResult by_open_mpi = srun(placement, train);
  EXPECT_GT(by_open_mpi.exit_code, 0) << by_open_mpi;
  EXPECT_THAT(by_open_mpi.err, HasSubstr("PMI"));

  Words blind{"sh", "-c", "unset $(env | sed -n 's/^\\(SLURM_[A-Z0-9_]*\\)=.*/\\1/p'); exec \"$@\"", "sh"};
  blind.insert(blind.end(), train.begin(), train.end());
  const ProgramResult by_muster = srun(placement, blind);
  EXPECT_EQ(by_muster.exit_code, contract::kExitDoNotRetry) << by_muster;
  EXPECT_THAT(by_muster.err,
              HasSubstr("the environment says WORLD_SIZE=2, but MPI says the number of ranks is 1"));
  EXPECT_FALSE(fs::exists(checkpoints) && !fs::is_empty(checkpoints)) << "somebody trained";
}

// Each process would believe to be rank 0 of 1.
TEST_F(SrunExecTest, ABatchScriptIsNoRank) {
  const fs::path log = out_ / "batch.log";
  const ProgramResult result = cluster().on_controller(
      {"sbatch", "--wait", "-o", log.string(), "--wrap", testing::built_program("muster") + " exec -- true"});
  EXPECT_EQ(result.exit_code, contract::kExitDoNotRetry) << result;
  std::ifstream in(log);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_THAT(text, HasSubstr("no step started by srun"));
}

}  // namespace
}  // namespace muster
