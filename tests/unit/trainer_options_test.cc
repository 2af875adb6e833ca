// muster-train's command line: what is wrong is said in one line each, with what is allowed.
#include "trainer/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/run_contract.h"

namespace muster {
namespace {

using nlohmann::json;

Result<ParsedOptions> parse(std::vector<const char*> arguments) {
  ::unsetenv(contract::kDataDir);
  ::unsetenv(contract::kCheckpointDir);
  arguments.insert(arguments.begin(), "muster-train");
  return parse_trainer_options(static_cast<int>(arguments.size()), arguments.data());
}

struct BadLine {
  const char* name;
  std::vector<const char*> arguments;
  const char* message;
};

void PrintTo(const BadLine& line, std::ostream* out) { *out << line.name; }

std::string name_of(const ::testing::TestParamInfo<BadLine>& info) { return info.param.name; }

class BadCommandLine : public ::testing::TestWithParam<BadLine> {};

TEST_P(BadCommandLine, IsOneClearError) {
  std::vector<const char*> arguments = {"--data-path", "/d"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  const auto parsed = parse(arguments);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parsed.error().message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    TrainerOptions, BadCommandLine,
    ::testing::ValuesIn(std::vector<BadLine>{
        {"NegativeEpochs", {"--epochs", "-1"}, "--epochs is -1; allowed: 1 to 1000000000000"},
        {"NoEpochs", {"--epochs", "0"}, "--epochs is 0; allowed: 1 to 1000000000000"},
        {"StepsBeyondTheirRange",
         {"--steps", "1000000000001"},
         "--steps is 1000000000001; allowed: 1 to 1000000000000"},
        {"StepsThatOverflow",
         {"--steps", "99999999999999999999"},
         "--steps is '99999999999999999999'; allowed: 1 to 1000000000000"},
        {"StepsAreAText", {"--steps", "many"}, "--steps is 'many'; allowed: 1 to 1000000000000"},
        {"Neither", {}, "one of --epochs and --steps is needed"},
        {"Both", {"--epochs", "1", "--steps", "2"}, "--epochs and --steps exclude each other"},
        {"LearningRateZero",
         {"--steps", "1", "--learning-rate", "0"},
         "--learning-rate is 0; allowed: above 0, up to 1000000"},
        {"LearningRateNan",
         {"--steps", "1", "--learning-rate", "nan"},
         "--learning-rate is nan; allowed: above 0, up to 1000000"},
        {"MomentumOne",
         {"--steps", "1", "--momentum", "1"},
         "--momentum is 1; allowed: at least 0 and below 1"},
        {"EpsilonZero", {"--steps", "1", "--epsilon", "0"}, "--epsilon is 0; allowed: above 0, up to 1"},
        {"NegativeSeed", {"--steps", "1", "--seed", "-1"}, "--seed is -1; allowed: 0 to 9223372036854775807"},
        {"WarmupBeyondTheEnd",
         {"--steps", "5", "--warmup-steps", "6"},
         "--warmup-steps is 6; allowed: 0 to 5"},
        {"MinimumAboveThePeak",
         {"--steps", "5", "--learning-rate", "0.1", "--min-learning-rate", "0.2"},
         "--min-learning-rate is 0.2; allowed: at most the learning rate, which is 0.1"},
        {"UnknownSchedule",
         {"--steps", "5", "--lr-schedule", "linear"},
         "--lr-schedule is 'linear'; allowed: cosine, step, constant"},
        {"StepScheduleWithoutLength",
         {"--steps", "5", "--lr-schedule", "step"},
         "--lr-schedule step needs one of --lr-every-steps and --lr-every-epochs; no other schedule has "
         "them"},
        {"StepLengthWithCosine",
         {"--steps", "5", "--lr-every-steps", "2"},
         "--lr-schedule step needs one of --lr-every-steps and --lr-every-epochs; no other schedule has "
         "them"},
        {"NegativeClipNorm",
         {"--steps", "5", "--clip-norm", "-1"},
         "--clip-norm is -1; allowed: 0 to 1000000"},
        {"NoBatches",
         {"--steps", "5", "--accumulation-steps", "0"},
         "--accumulation-steps is 0; allowed: 1 to 1048576"},
        {"NegativePrefetch", {"--steps", "5", "--prefetch", "-1"}, "--prefetch is -1; allowed: 0 to 1024"},
        {"NoTimeForData",
         {"--steps", "5", "--data-timeout-ms", "0"},
         "--data-timeout-ms is 0; allowed: 1 to 1000000000000"},
        {"UnknownMetric",
         {"--steps", "5", "--early-stop-metric", "f1"},
         "--early-stop-metric is 'f1'; allowed: none, accuracy, loss"},
        {"EarlyStopWithoutEvaluations",
         {"--steps", "5", "--early-stop-metric", "loss", "--evaluate-every-epochs", "0"},
         "--early-stop-metric needs evaluations; allowed: --evaluate-every-epochs of at least 1"},
        {"Several",
         {"--steps", "0", "--shards", "3"},
         "--steps is 0; allowed: 1 to 1000000000000\n--shards is 3; allowed: a power of two from 1 to 65536"},
        {"UnknownFlag",
         {"--steps", "1", "--stepz", "2"},
         "unrecognised option '--stepz'; `muster-train --help` lists the options"},
    }),
    name_of);

TEST(TrainerOptions, WithoutDataTheFlagAndTheVariableAreNamed) {
  EXPECT_EQ(parse({"--steps", "1"}).error().message, "--data-path is missing (or set MUSTER_DATA_DIR)");
}

TEST(TrainerOptions, JsonGoesBothWays) {
  const auto parsed =
      parse({"--data-path", "/d", "--epochs", "3", "--hidden", "5,6", "--clip-norm", "0.5", "--reproducible",
             "0", "--data-timeout-ms", "1234", "--early-stop-metric", "loss", "--early-stop-patience", "4"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  json stored = to_json(parsed->options);
  EXPECT_FALSE(stored.contains("steps"));
  stored["data"] = "fingerprint";
  const auto read = trainer_options_from_json(stored);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(parsed->options));
  EXPECT_EQ(read->hidden, (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(read->data_timeout, std::chrono::milliseconds(1234));
  EXPECT_EQ(read->early_stop.patience, 4);
}

TEST(TrainerOptions, WhatAnOlderCheckpointLacksHasItsDefault) {
  json stored = to_json(TrainerOptions());
  stored.erase("accumulation_steps");
  stored.erase("clip_norm");
  const auto read = trainer_options_from_json(stored);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(TrainerOptions()));
}

TEST(TrainerOptions, AnOptionOfANewerVersionIsNamed) {
  json stored = to_json(TrainerOptions());
  stored["quantum"] = true;
  EXPECT_EQ(
      trainer_options_from_json(stored).error().message,
      "the stored configuration has 'quantum', which this version does not know; use a newer muster-train");
  stored = to_json(TrainerOptions());
  stored["threads"] = "four";
  EXPECT_EQ(trainer_options_from_json(stored).error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace muster
