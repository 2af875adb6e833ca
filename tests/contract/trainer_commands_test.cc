// muster-train as its users start it: bad paths, eval, export, and a run that begins with another's
// parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "common/checkpoint/find_checkpoint.h"
#include "common/checkpoint/tensor_reader.h"
#include "common/run_contract.h"
#include "common/sha256.h"
#include "tests/support/command.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::CommandResult;
using ::testing::HasSubstr;

const std::string kData = std::string(MUSTER_SOURCE_DIR) + "/examples/data/digits8x8";

CommandResult trainer(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), testing::built_program("muster-train"));
  return testing::run_command(arguments);
}

CommandResult trainer_on(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {MUSTER_MPIRUN_PATH,
                                   "--allow-run-as-root",
                                   "--oversubscribe",
                                   "--bind-to",
                                   "none",
                                   "-np",
                                   std::to_string(ranks),
                                   testing::built_program("muster-train")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return testing::run_command(argv);
}

// A short run; `changes` takes the place of its flags, or adds to them.
CommandResult train(const fs::path& checkpoints, const std::map<std::string, std::string>& changes = {}) {
  std::map<std::string, std::string> flags = {
      {"--data-path", kData}, {"--steps", "12"},       {"--hidden", "16"},
      {"--batch-size", "64"}, {"--shards", "4"},       {"--learning-rate", "0.01"},
      {"--dropout", "0.2"},   {"--warmup-steps", "2"}, {"--checkpoint-dir", checkpoints}};
  for (const auto& [flag, value] : changes) flags[flag] = value;
  std::vector<std::string> arguments;
  for (const auto& [flag, value] : flags) arguments.insert(arguments.end(), {flag, value});
  return trainer(arguments);
}

checkpoint::FoundCheckpoint newest(const fs::path& checkpoints) {
  auto found = checkpoint::find_checkpoint(checkpoints, checkpoint::Verify::kEverything);
  EXPECT_TRUE(found) << found.error().message;
  return found.value_or(checkpoint::FoundCheckpoint{});
}

std::string parameter_hash(const checkpoint::FoundCheckpoint& stored) {
  const checkpoint::TensorReader reader(stored.path, stored.manifest);
  Sha256 hash;
  for (const checkpoint::TensorInfo& tensor : stored.manifest.tensors) {
    if (!tensor.name.starts_with("parameters/")) continue;
    EXPECT_TRUE(reader.read_all(tensor.name, [&](auto block) { hash.update(block.data(), block.size()); }));
  }
  return hash.hex_digest();
}

// One finished run, which several tests look at.
class TrainerCommands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new testing::TemporaryDirectory;
    const CommandResult result = train(finished_run());
    ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
    training_output_ = new std::string(result.output);
  }
  static void TearDownTestSuite() {
    delete training_output_;
    delete directory_;
  }
  static fs::path finished_run() { return directory_->path() / "finished"; }
  static const std::string& training_output() { return *training_output_; }

  fs::path scratch(const std::string& name) const { return own_.path() / name; }

 private:
  static testing::TemporaryDirectory* directory_;
  static std::string* training_output_;
  testing::TemporaryDirectory own_;
};
testing::TemporaryDirectory* TrainerCommands::directory_ = nullptr;
std::string* TrainerCommands::training_output_ = nullptr;

// ---- Paths that are not what they should be -----------------------------------------------------------

TEST_F(TrainerCommands, ADataPathThatIsAFileIsOneClearError) {
  const std::string file = kData + "/train-labels-idx1-ubyte.gz";
  const CommandResult result = trainer({"--steps", "1", "--data-path", file});
  EXPECT_EQ(result.exit_code, contract::kExitDoNotRetry);
  EXPECT_EQ(result.errors, "muster-train: rank 0: " + file +
                               " is no directory; allowed: the directory that holds the data\n");
}

TEST_F(TrainerCommands, ACheckpointDirectoryThatIsAFileIsOneClearError) {
  std::ofstream(scratch("file")) << "text";
  const CommandResult result = train(scratch("file"));
  EXPECT_EQ(result.exit_code, contract::kExitDoNotRetry);
  EXPECT_EQ(result.errors, "muster-train: rank 0: --checkpoint-dir " + scratch("file").string() +
                               " is a file; allowed: a directory, which is made if it is not there\n");
}

// ---- eval ---------------------------------------------------------------------------------------------

TEST_F(TrainerCommands, EvalGivesTheRunsOwnNumbersOnAnyNumberOfRanks) {
  const CommandResult alone = trainer({"eval", finished_run(), "--json"});
  ASSERT_EQ(alone.exit_code, 0) << alone.errors;
  const json numbers = json::parse(alone.output);
  EXPECT_EQ(numbers.at("step"), 12);
  EXPECT_EQ(numbers.at("samples"), 297);
  EXPECT_GT(numbers.at("accuracy").get<double>(), 0.2);
  EXPECT_THAT(training_output(),
              HasSubstr(fmt::format("loss {:.6g} accuracy {:.6g} on 297 samples",
                                    numbers.at("loss").get<double>(), numbers.at("accuracy").get<double>())));
  const CommandResult together = trainer_on(3, {"eval", newest(finished_run()).path, "--json"});
  ASSERT_EQ(together.exit_code, 0) << together.errors;
  EXPECT_EQ(together.output, alone.output);
}

TEST_F(TrainerCommands, EvalTakesOtherData) {
  const fs::path other = scratch("data");
  fs::create_directory(other);
  for (const auto& entry : fs::directory_iterator(kData)) {
    const std::string name = entry.path().filename();
    fs::create_symlink(entry.path(), other / name);
    // The training samples as test data.
    if (!name.starts_with("train-")) continue;
    fs::remove(other / ("test-" + name.substr(6)));
    fs::create_symlink(entry.path(), other / ("t10k-" + name.substr(6)));
  }
  const CommandResult result = trainer({"eval", finished_run(), "--json", "--data-path", other});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(json::parse(result.output).at("samples"), 1500);
}

TEST_F(TrainerCommands, EvalRefusesWhatItCannotUseInOneLine) {
  EXPECT_THAT(trainer({"eval", scratch("nothing")}).errors, HasSubstr("is not there; allowed: a checkpoint"));
  EXPECT_THAT(trainer({"eval"}).errors, HasSubstr("found 0 arguments; needed: 1\nusage: "));
  fs::create_directory(scratch("empty"));
  const CommandResult empty = trainer({"eval", scratch("empty")});
  EXPECT_EQ(empty.exit_code, contract::kExitDoNotRetry);
  EXPECT_THAT(empty.errors, HasSubstr("holds no committed checkpoint"));
}

// ---- export -------------------------------------------------------------------------------------------

TEST_F(TrainerCommands, ExportsAreTheParametersBitForBit) {
  const fs::path tensors = scratch("out.safetensors");
  const fs::path hdf5 = scratch("out.h5");
  for (const fs::path& out : {tensors, hdf5}) {
    const CommandResult result = trainer({"export", finished_run(), out});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }
  const CommandResult seen = testing::run_command(
      {"/usr/bin/python3", MUSTER_SOURCE_DIR "/tests/support/read_exports.py", tensors, hdf5});
  if (seen.exit_code == 77) GTEST_SKIP() << "python3-h5py is not installed for /usr/bin/python3";
  ASSERT_EQ(seen.exit_code, 0) << seen.errors;
  const json both = json::parse(seen.output);
  EXPECT_EQ(both.at("safetensors"), both.at("hdf5"));

  const checkpoint::FoundCheckpoint stored = newest(finished_run());
  const checkpoint::TensorReader reader(stored.path, stored.manifest);
  json expected = json::object();
  for (const checkpoint::TensorInfo& tensor : stored.manifest.tensors) {
    if (!tensor.name.starts_with("parameters/")) continue;
    Sha256 hash;
    ASSERT_TRUE(reader.read_all(tensor.name, [&](auto block) { hash.update(block.data(), block.size()); }));
    expected[tensor.name.substr(11)] = {{"shape", tensor.shape}, {"sha256", hash.hex_digest()}};
  }
  EXPECT_EQ(expected.size(), 4u);
  EXPECT_EQ(both.at("safetensors").at("tensors"), expected);
  const json& metadata = both.at("safetensors").at("metadata");
  EXPECT_EQ(metadata.at("step"), "12");
  EXPECT_EQ(metadata.at("checkpoint_manifest_sha256"), stored.manifest_sha256);
}

// h5py knows nothing of ranks: the master file's virtual datasets show it whole tensors.
TEST_F(TrainerCommands, ACheckpointOfSeveralRanksIsReadByH5pyAsWhatIsExported) {
  const CommandResult trained =
      trainer_on(3, {"--data-path", kData, "--steps", "6", "--hidden", "16", "--batch-size", "64", "--shards",
                     "4", "--checkpoint-dir", scratch("together")});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const checkpoint::FoundCheckpoint stored = newest(scratch("together"));
  ASSERT_EQ(stored.manifest.world_size, 3);
  const CommandResult seen = testing::run_command(
      {"/usr/bin/python3", MUSTER_SOURCE_DIR "/tests/support/read_checkpoint.py", stored.path / "master.h5"});
  if (seen.exit_code == 77) GTEST_SKIP() << "python3-h5py is not installed for /usr/bin/python3";
  ASSERT_EQ(seen.exit_code, 0) << seen.errors;
  const json whole = json::parse(seen.output);
  EXPECT_EQ(whole.at("attributes").at("step"), 6);
  EXPECT_EQ(whole.at("attributes").at("world_size"), 3);
  EXPECT_EQ(whole.at("state").at("training_state/training/step"), 6);

  for (const char* out : {"out.safetensors", "out.h5"})
    ASSERT_EQ(trainer({"export", scratch("together"), scratch(out)}).exit_code, 0);
  const CommandResult exports =
      testing::run_command({"/usr/bin/python3", MUSTER_SOURCE_DIR "/tests/support/read_exports.py",
                            scratch("out.safetensors"), scratch("out.h5")});
  ASSERT_EQ(exports.exit_code, 0) << exports.errors;
  const json exported = json::parse(exports.output).at("safetensors").at("tensors");
  EXPECT_EQ(exported.size(), 4U);
  for (const auto& [name, tensor] : exported.items()) {
    const json& from_master = whole.at("tensors").at("parameters/" + name);
    EXPECT_EQ(from_master.at("sha256"), tensor.at("sha256")) << name;
    EXPECT_EQ(from_master.at("shape"), tensor.at("shape")) << name;
    EXPECT_EQ(from_master.at("virtual"), true) << name;
    EXPECT_EQ(from_master.at("nan"), 0) << name;
    EXPECT_TRUE(whole.at("tensors").contains("optimizer/" + name + "/exp_avg")) << name;
  }
}

TEST_F(TrainerCommands, ExportReplacesAFileOnlyWithForce) {
  const fs::path out = scratch("out.h5");
  std::ofstream(out) << "mine";
  const CommandResult refused = trainer({"export", finished_run(), out});
  EXPECT_EQ(refused.exit_code, contract::kExitDoNotRetry);
  EXPECT_EQ(refused.errors,
            "muster-train export: " + out.string() + " is there already; --force replaces it\n");
  EXPECT_EQ(fs::file_size(out), 4u);
  EXPECT_EQ(trainer({"export", finished_run(), out, "--force"}).exit_code, 0);
  EXPECT_GT(fs::file_size(out), 1000u);
  EXPECT_THAT(trainer({"export", finished_run(), scratch("out.pt")}).errors,
              HasSubstr("ends in '.pt'; allowed: .h5, .safetensors"));
}

TEST_F(TrainerCommands, ExportOfADamagedCheckpointWritesNothing) {
  const fs::path copy = scratch("step-000000000012");
  fs::copy(newest(finished_run()).path, copy);
  std::fstream file(copy / "rank-00000.h5", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x5a');
  file.close();
  const fs::path out = scratch("out.safetensors");
  const CommandResult result = trainer({"export", copy, out});
  EXPECT_EQ(result.exit_code, contract::kExitDoNotRetry);
  EXPECT_THAT(result.errors, HasSubstr("is damaged: rank-00000.h5"));
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(TrainerCommands, AnExportThatCannotBeWrittenNamesTheFileThatWasAskedFor) {
  const fs::path out = scratch("no such folder") / "out.h5";
  const CommandResult result = trainer({"export", finished_run(), out});
  EXPECT_EQ(result.exit_code, contract::kExitNotStored);
  EXPECT_EQ(result.errors,
            "muster-train export: cannot create " + out.string() + ": No such file or directory\n");
}

TEST_F(TrainerCommands, OutputThatCannotBeWrittenIsAnError) {
  const std::string run = finished_run();
  for (const std::string& command :
       {"eval " + run, "eval --json " + run, "export " + run + " " + scratch("out.h5").string(),
        std::string("eval --help"), std::string("export --help"), std::string("--help"),
        std::string("--version"), std::string("--list-devices"),
        std::string("--check-options --steps 1 --data-path x")}) {
    const CommandResult result = testing::run_command(
        {"/bin/sh", "-c", testing::built_program("muster-train") + " " + command + " >/dev/full"});
    EXPECT_EQ(result.exit_code, contract::kExitNotStored) << command << "\n" << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("cannot write to standard output: No space left on device"))
        << command;
  }
}

// Its lines are no result: the checkpoints are.
TEST_F(TrainerCommands, TrainingWhoseLinesCannotBeWrittenGoesOnAndSaysSoOnce) {
  const CommandResult result = testing::run_command(
      {"/bin/sh", "-c",
       fmt::format(
           "{} --data-path {} --steps 12 --hidden 16 --log-every-steps 1 --checkpoint-dir {} >/dev/full",
           testing::built_program("muster-train"), kData, scratch("unheard").string())});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.errors,
            "muster-train: cannot write to standard output: No space left on device; training goes on\n");
  EXPECT_EQ(newest(scratch("unheard")).manifest.step, 12);
}

// ---- --init-from
// -------------------------------------------------------------------------------------------

TEST_F(TrainerCommands, ARunBeginsWithAnothersParametersAndRemembersWhich) {
  const checkpoint::FoundCheckpoint source = newest(finished_run());
  // With a vanishing learning rate and no decay the parameters stay what they were at the beginning.
  std::map<std::string, std::string> flags = {
      {"--init-from", finished_run()}, {"--learning-rate", "1e-30"}, {"--weight-decay", "0"}};
  const CommandResult result = train(scratch("tuned"), flags);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("initialised"));
  const checkpoint::FoundCheckpoint tuned = newest(scratch("tuned"));
  EXPECT_EQ(parameter_hash(tuned), parameter_hash(source));
  const json& training = tuned.manifest.state.at("training");
  EXPECT_EQ(training.at("initial_parameters").at("manifest_sha256"), source.manifest_sha256);
  EXPECT_EQ(training.at("initial_parameters").at("step"), 12);
  EXPECT_EQ(training.at("optimizer_step"), 12) << "the optimizer began anew";

  // A run that has a checkpoint of its own does not look at it again.
  flags["--init-from"] = scratch("gone");
  const CommandResult again = train(scratch("tuned"), flags);
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(again.output.find("initialised\""), std::string::npos) << again.output;
}

TEST_F(TrainerCommands, ParametersThatDoNotFitAreNamed) {
  const CommandResult result =
      train(scratch("other"), {{"--init-from", finished_run()}, {"--hidden", "8,8"}});
  EXPECT_EQ(result.exit_code, contract::kExitDoNotRetry);
  EXPECT_THAT(result.errors, HasSubstr("do not fit this model:"));
  EXPECT_THAT(result.errors, HasSubstr("\n  parameters/layer0.weight: [16, 64] there, [8, 64] here"));
  EXPECT_THAT(result.errors, HasSubstr("\n  parameters/layer2.weight: missing there, [10, 8] here"));
  EXPECT_THAT(train(scratch("other"), {{"--init-from", scratch("nothing")}}).errors,
              HasSubstr("--init-from: " + scratch("nothing").string() + " is not there"));
}

TEST_F(TrainerCommands, WhatCannotBeBegunWithIsNamedAsItsUserWroteIt) {
  const std::string nothing = scratch("nothing").string();
  const std::string problem =
      nothing + " is not there; allowed: a checkpoint (step-…), or a directory of checkpoints\n";
  EXPECT_EQ(train(scratch("other"), {{"--init-from", nothing}}).errors,
            "muster-train: rank 0: --init-from: " + problem);
  ::setenv(contract::kRunDir, scratch("run").c_str(), 1);
  EXPECT_EQ(train(scratch("other"), {{"--init-from", nothing}}).errors,
            "muster-train: rank 0: trainer.init_from: " + problem);
  ::unsetenv(contract::kRunDir);
  const CommandResult together = trainer_on(
      2, {"--data-path", kData, "--steps", "1", "--init-from", nothing, "--checkpoint-dir", scratch("both")});
  EXPECT_THAT(together.errors, HasSubstr("muster-train: rank 0: --init-from: " + problem));
  EXPECT_THAT(together.errors, HasSubstr("muster-train: rank 1: --init-from: " + problem));
}

// ---- Going on elsewhere -------------------------------------------------------------------------------

TEST_F(TrainerCommands, WhatComputesOtherwiseThanTheCheckpointsProgramIsToldInWords) {
  ASSERT_EQ(train(scratch("moved")).exit_code, 0);
  ::setenv("DNNL_MAX_CPU_ISA", "SSE41", 1);
  const CommandResult result =
      train(scratch("moved"), {{"--steps", "14"}, {"--threads", "2"}, {"--learning-rate", "0.02"}});
  ::unsetenv("DNNL_MAX_CPU_ISA");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, ::testing::ContainsRegex(
                                 "changed since the checkpoint was made: .*learning_rate: 0.01 then, 0.02 "
                                 "now; .*threads: 1 then, 2 now; "
                                 "device: cpu: oneDNN [0-9.]+, [A-Za-z0-9.-]+, 1 thread, .* then, "
                                 "cpu: oneDNN [0-9.]+, SSE4.1, 2 threads, .* now"));
}

TEST_F(TrainerCommands, TheNewestSoundCheckpointOfADirectoryIsTaken) {
  const fs::path copies = scratch("copies");
  fs::create_directory(copies);
  for (const char* name : {"step-000000000012", "step-000000000012.2"})
    fs::copy(newest(finished_run()).path, copies / name);
  std::ofstream(copies / "step-000000000012.2" / "manifest.json", std::ios::app) << " ";
  const CommandResult result = trainer({"export", copies, scratch("out.h5")});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("step-000000000012.2 is damaged"));
}

}  // namespace
}  // namespace muster
