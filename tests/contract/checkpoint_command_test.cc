// `muster checkpoint …` as a user meets it: output, JSON, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "common/checkpoint/hash.h"
#include "common/checkpoint/verify.h"
#include "common/run_contract.h"
#include "tests/support/command.h"
#include "tests/support/hdf5_store_helpers.h"
#include "tests/support/temporary_directory.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::save_sample;
using testing::StoreSetup;

class CheckpointCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::setenv("XDG_STATE_HOME", (directory_.path() / "state").c_str(), 1), 0);
    setup_.directory = directory_.path() / "run-12345678" / "checkpoints";
    setup_.ranks = 2;
    setup_.retention.keep_last = 5;
    setup_.tensors = testing::small_tensors();
    for (const std::int64_t step : {10, 20}) {
      ASSERT_TRUE(save_sample(setup_, step, 0.5 + 0.001 * static_cast<double>(step)).front());
    }
  }

  testing::CommandResult muster(const std::string& action, const fs::path& where,
                                const std::string& option = "") {
    std::vector<std::string> argv{testing::built_program("muster"), "checkpoint", action, where.string()};
    if (!option.empty()) argv.push_back(option);
    return testing::run_command(argv);
  }

  fs::path step(const char* name) const { return setup_.directory / name; }

  void damage(const char* name) const { fs::resize_file(step(name) / "rank-00001.h5", 10); }

  testing::TemporaryDirectory directory_;
  StoreSetup setup_;
};

TEST_F(CheckpointCommandTest, ListsWhatIsThereInAnyState) {
  fs::create_directory(step("step-000000000030"));
  for (const fs::path& where : {setup_.directory, setup_.directory.parent_path()}) {
    const auto result = muster("list", where);
    EXPECT_EQ(result.exit_code, contract::kMusterOk) << result.errors;
    EXPECT_THAT(result.output,
                ContainsRegex("step-000000000010 +0\\.51 +[0-9.]+ KiB +[0-9TZ:.-]+ +2 +committed\n"));
    EXPECT_THAT(result.output, ContainsRegex("step-000000000030 +- +- +- +- +not committed\n"));
  }
  fs::remove(step("step-000000000030"));
  damage("step-000000000020");
  EXPECT_EQ(testing::load_sample(setup_)->step, 10);
  const auto result = muster("list", setup_.directory, "--json");
  const json listed = json::parse(result.output).at("checkpoints");
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].at("name"), "step-000000000010");
  EXPECT_EQ(listed[0].at("step"), 10);
  EXPECT_EQ(listed[0].at("state"), "committed");
  EXPECT_EQ(listed[0].at("world_size"), 2);
  EXPECT_EQ(listed[0].at("metric"), 0.51);
  EXPECT_EQ(listed[1].at("name"), "quarantine/step-000000000020");
  EXPECT_EQ(listed[1].at("state"), "quarantined");
  EXPECT_THAT(listed[1].at("note").get<std::string>(), HasSubstr("rank-00001.h5 is 10 bytes long"));
}

// A reason of several lines once broke the table.
TEST_F(CheckpointCommandTest, ListsEachQuarantinedOneOnALine) {
  damage("step-000000000020");
  fs::resize_file(step("step-000000000020") / "rank-00000.h5", 11);
  EXPECT_EQ(testing::load_sample(setup_)->step, 10);
  const auto result = muster("list", setup_.directory);
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 3) << result.output;
  EXPECT_THAT(result.output,
              ContainsRegex("quarantined: rank-0000[01].h5 is 1[01] bytes .*; rank-0000[01].h5"));
}

TEST_F(CheckpointCommandTest, ShowsTensorsAndState) {
  const auto newest = muster("show", setup_.directory);
  EXPECT_EQ(newest.exit_code, contract::kMusterOk) << newest.errors;
  for (const char* text : {"step        20", "written by  test program 1.2", "metric      0.52",
                           "optimizer/a/exp_avg", "[5, 3]", "\"epoch\": 2"}) {
    EXPECT_THAT(newest.output, HasSubstr(text));
  }
  const json shown = json::parse(muster("show", step("step-000000000010"), "--json").output);
  EXPECT_EQ(shown.at("manifest").at("step"), 10);
  EXPECT_EQ(shown.at("manifest").at("state"), testing::sample_state(10));
}

TEST_F(CheckpointCommandTest, VerifyNamesFileAndDatasetAndFails) {
  auto result = muster("verify", setup_.directory);
  EXPECT_EQ(result.exit_code, contract::kMusterOk);
  EXPECT_EQ(result.output, "step-000000000010: ok\nstep-000000000020: ok\n");
  fs::create_directory(step("step-000000000030"));
  damage("step-000000000020");
  result = muster("verify", setup_.directory);
  EXPECT_EQ(result.exit_code, contract::kMusterVerifyFailed);
  EXPECT_THAT(result.output, HasSubstr("step-000000000010: ok\n"));
  EXPECT_THAT(result.output,
              HasSubstr("step-000000000020: rank-00001.h5 is 10 bytes long, the manifest says"));
  EXPECT_THAT(result.output, HasSubstr("(in dataset parameters/a, optimizer/a/exp_avg, parameters/b)"));
  EXPECT_THAT(result.output, HasSubstr("step-000000000030: not committed"));
  EXPECT_EQ(muster("verify", step("step-000000000010")).exit_code, contract::kMusterOk);
  EXPECT_EQ(muster("verify", step("step-000000000030")).exit_code, contract::kMusterVerifyFailed);
  const json results = json::parse(muster("verify", setup_.directory, "--json").output);
  EXPECT_EQ(results[1].at("state"), "damaged");
  EXPECT_EQ(results[1].at("problems")[0].at("file"), "rank-00001.h5");
  EXPECT_EQ(results[1].at("problems")[0].at("datasets").size(), 3U);
}

TEST_F(CheckpointCommandTest, HashIsOfTheNewestOrTheNamedOne) {
  const auto hash_of = [&](const char* name) {
    const TensorReader reader(step(name), *verify_checkpoint(step(name)).value().manifest);
    return canonical_hash(reader).value();
  };
  const std::string expected = hash_of("step-000000000020") + "  step-000000000020\n";
  EXPECT_EQ(muster("hash", setup_.directory).output, expected);
  EXPECT_EQ(muster("hash", setup_.directory.parent_path() / ".").output, expected);
  EXPECT_EQ(muster("hash", step("step-000000000010") / "").output,
            hash_of("step-000000000010") + "  step-000000000010\n");
  EXPECT_EQ(json::parse(muster("hash", setup_.directory, "--json").output).at("sha256"),
            expected.substr(0, 64));
  // A damaged newest one is an error, not a reason to hash another one.
  damage("step-000000000020");
  const auto result = muster("hash", setup_.directory);
  EXPECT_EQ(result.exit_code, contract::kMusterVerifyFailed);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, HasSubstr("rank-00001.h5"));
}

TEST_F(CheckpointCommandTest, WhatIsNotThereIsSaid) {
  const fs::path empty = directory_.path() / "empty";
  fs::create_directory(empty);
  // `list` once left with 0 there, and its help said 66.
  for (const char* action : {"list", "show", "verify", "hash"}) {
    const auto result = muster(action, empty);
    EXPECT_EQ(result.exit_code, contract::kMusterNotFound) << action;
    EXPECT_EQ(result.output, "") << action;
    EXPECT_THAT(result.errors, HasSubstr("checkpoint in " + empty.string())) << action;
  }
  const auto listed = muster("list", empty, "--json");
  EXPECT_EQ(listed.exit_code, contract::kMusterNotFound);
  EXPECT_EQ(json::parse(listed.output),
            (json{{"directory", empty.string()}, {"checkpoints", json::array()}}));
  EXPECT_EQ(muster("list", directory_.path() / "none").exit_code, contract::kMusterNotFound);
  EXPECT_EQ(muster("list", "no-such-run").exit_code, contract::kMusterNotFound);
  EXPECT_EQ(muster("list", step("step-000000000010") / "COMMITTED").exit_code, contract::kMusterNotFound);
}

TEST_F(CheckpointCommandTest, AWrongCommandLineIsAUsageError) {
  const std::string program = testing::built_program("muster");
  for (const auto& argv : {std::vector<std::string>{program, "checkpoint"},
                           std::vector<std::string>{program, "checkpoint", "list"},
                           std::vector<std::string>{program, "checkpoint", "lost", "."},
                           std::vector<std::string>{program, "checkpoint", "list", ".", "."},
                           std::vector<std::string>{program, "checkpoint", "now"},
                           std::vector<std::string>{program, "checkpoint", "now", "--timeuot", "1s", "x"},
                           std::vector<std::string>{program, "checkpoint", "list", ".", "--jason"}}) {
    const auto result = testing::run_command(argv);
    EXPECT_EQ(result.exit_code, contract::kMusterUsage) << argv.back();
    EXPECT_THAT(result.errors, HasSubstr("usage: muster checkpoint"));
  }
}

}  // namespace
}  // namespace muster::checkpoint
