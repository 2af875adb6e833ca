// Checkpoints as others read them: h5py, h5dump, and Python's own SHA-256.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/checkpoint/hash.h"
#include "common/checkpoint/verify.h"
#include "common/file_ops.h"
#include "common/sha256.h"
#include "tests/support/command.h"
#include "tests/support/hdf5_store_helpers.h"
#include "tests/support/temporary_directory.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

using ::testing::HasSubstr;
using testing::run_command;
using testing::sample_state;
using testing::sample_values;
using testing::SampleTensor;
using testing::save_sample;
using testing::StoreSetup;

// What h5py sees; null if it is not installed.
json read_with_h5py(const fs::path& master, const std::string& values_of = "") {
  std::vector<std::string> argv{"/usr/bin/python3", MUSTER_SOURCE_DIR "/tests/support/read_checkpoint.py",
                                master.string()};
  if (!values_of.empty()) argv.push_back(values_of);
  const auto result = run_command(argv);
  if (result.exit_code == 77) return nullptr;
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return json::parse(result.output, nullptr, false);
}

#define SKIP_WITHOUT_H5PY(seen) \
  if ((seen).is_null()) GTEST_SKIP() << "python3-h5py is not installed for /usr/bin/python3"

class Hdf5FormatTest : public ::testing::Test {
 protected:
  fs::path save(int ranks, std::int64_t step, std::optional<double> metric = 0.75) {
    setup_.directory = directory_.path() / fmt::format("by {}", ranks);
    setup_.ranks = ranks;
    const auto outcomes = save_sample(setup_, step, metric);
    EXPECT_TRUE(outcomes.front()) << outcomes.front().error().message;
    return outcomes.front()->path;
  }

  static std::string hash_of(const fs::path& checkpoint) {
    const TensorReader reader(checkpoint, *verify_checkpoint(checkpoint).value().manifest);
    return canonical_hash(reader).value();
  }

  void expect_tensors(const json& seen, std::int64_t step) const {
    ASSERT_EQ(seen.at("tensors").size(), setup_.tensors.size());
    for (const SampleTensor& tensor : setup_.tensors) {
      SCOPED_TRACE(tensor.name);
      const json& entry = seen.at("tensors").at(tensor.name);
      const auto values = sample_values(tensor, step);
      EXPECT_EQ(entry.at("shape"), json(tensor.shape));
      EXPECT_EQ(entry.at("dtype"), "<f4");
      EXPECT_EQ(entry.at("sha256"), sha256_hex(values.data(), values.size() * sizeof(float)));
      EXPECT_EQ(entry.at("nan"), 0);
      EXPECT_EQ(entry.at("virtual"), !values.empty());
    }
  }

  testing::TemporaryDirectory directory_;
  StoreSetup setup_;
};

TEST_F(Hdf5FormatTest, H5pyReadsWholeTensorsAndTheState) {
  const fs::path checkpoint = save(3, 40);
  const json seen = read_with_h5py(checkpoint / "master.h5");
  SKIP_WITHOUT_H5PY(seen);
  expect_tensors(seen, 40);
  const json& attributes = seen.at("attributes");
  EXPECT_EQ(attributes.at("format"), "muster-checkpoint");
  EXPECT_EQ(attributes.at("version"), 1);
  EXPECT_EQ(attributes.at("step"), 40);
  EXPECT_EQ(attributes.at("generation"), 1);
  EXPECT_EQ(attributes.at("world_size"), 3);
  EXPECT_EQ(attributes.at("metric"), 0.75);
  EXPECT_EQ(attributes.at("code"), "test program 1.2");
  EXPECT_THAT(attributes.at("created").get<std::string>(), HasSubstr("T"));
  const json& state = seen.at("state");
  EXPECT_EQ(json::parse(state.at("training_state_json").get<std::string>()), sample_state(40));
  EXPECT_EQ(state.at("training_state/step"), 40);
  EXPECT_EQ(state.at("training_state/epoch"), 2);
  EXPECT_EQ(state.at("training_state/data/position"), 384);
  EXPECT_EQ(state.at("training_state/data/seed"), 18446744073709551615ULL);
  EXPECT_EQ(state.at("training_state/random_counters"), json({1, 2, 3}));
  EXPECT_EQ(state.at("training_state/optimizer/name"), "adamw");
  EXPECT_EQ(state.at("training_state/optimizer/learning_rate"), 0.1);
  EXPECT_EQ(state.at("training_state/configuration/hidden"), json({512, 256}));
  EXPECT_EQ(state.at("training_state/configuration/reproducible"), 1);
  EXPECT_EQ(state.at("training_state/note"), "caf\xC3\xA9");
  EXPECT_EQ(state.at("training_state/nothing"), "null");
  EXPECT_EQ(state.at("training_state/names"), "[\"a\",\"b\"]");
}

TEST_F(Hdf5FormatTest, ADirectoryThatWasMovedIsReadable) {
  const fs::path checkpoint = save(2, 7);
  const fs::path moved = directory_.path() / "elsewhere";
  fs::rename(checkpoint, moved);
  const json seen = read_with_h5py(moved / "master.h5");
  SKIP_WITHOUT_H5PY(seen);
  expect_tensors(seen, 7);
}

TEST_F(Hdf5FormatTest, RowsOfAMissingFileReadAsNanAndVerifyNamesIt) {
  const fs::path checkpoint = save(2, 7);
  fs::remove(checkpoint / "rank-00001.h5");
  const json seen = read_with_h5py(checkpoint / "master.h5", "parameters/layer0.weight");
  SKIP_WITHOUT_H5PY(seen);
  const auto values = sample_values(setup_.tensors.front(), 7);
  ASSERT_EQ(seen.at("values").size(), 35U);
  for (std::size_t i = 0; i < 35; ++i) {
    // Rank 0 of 2 has rows 0 to 2 of 7.
    EXPECT_EQ(seen.at("values")[i], i < 15 ? json(values[i]) : json()) << i;
  }
  const auto verification = verify_checkpoint(checkpoint);
  ASSERT_EQ(verification->problems.size(), 1U);
  EXPECT_EQ(verification->problems.front().file, "rank-00001.h5");
  EXPECT_THAT(verification->problems.front().datasets, ::testing::Contains("parameters/layer0.weight"));
}

// The reader in docs/checkpoint_format.md, as it is printed there.
TEST_F(Hdf5FormatTest, TheDocumentedReaderWorks) {
  const fs::path checkpoint = save(3, 12);
  const std::string page = read_text_file(MUSTER_SOURCE_DIR "/docs/checkpoint_format.md").value();
  const std::string fence = "```python\n";
  const std::size_t begin = page.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const std::string reader =
      page.substr(begin + fence.size(), page.find("```", begin + 1) - begin - fence.size());
  const std::string program = "import sys\ntry:\n import numpy\nexcept ImportError:\n sys.exit(77)\n" +
                              reader +
                              "for name in sys.argv[2:]:\n"
                              "    print(hashlib.sha256(read(sys.argv[1], name).tobytes()).hexdigest())\n";
  std::vector<std::string> argv{"/usr/bin/python3", "-c", program, checkpoint.string()};
  std::string expected;
  for (const SampleTensor& tensor : setup_.tensors) {
    argv.push_back(tensor.name);
    const auto values = sample_values(tensor, 12);
    expected += sha256_hex(values.data(), values.size() * sizeof(float)) + "\n";
  }
  const auto result = run_command(argv);
  if (result.exit_code == 77) GTEST_SKIP() << "python3-numpy is not installed for /usr/bin/python3";
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, expected);
}

TEST_F(Hdf5FormatTest, TheCanonicalHashIsThatOfPythonWhateverTheNumberOfWriters) {
  const std::string first = hash_of(save(1, 9));
  for (int ranks = 2; ranks <= 5; ++ranks) EXPECT_EQ(hash_of(save(ranks, 9)), first) << ranks;
  EXPECT_NE(hash_of(save(2, 10)), first);
  const json seen = read_with_h5py(save(4, 9) / "master.h5");
  SKIP_WITHOUT_H5PY(seen);
  EXPECT_EQ(seen.at("canonical"), first);
}

TEST_F(Hdf5FormatTest, TheHashLeavesOutWhatIsNeitherParameterNorOptimizer) {
  const std::string with = hash_of(save(1, 9));
  std::erase_if(setup_.tensors,
                [](const SampleTensor& tensor) { return tensor.name.starts_with("buffers/"); });
  EXPECT_EQ(hash_of(save(2, 9)), with);
  setup_.tensors.pop_back();
  EXPECT_NE(hash_of(save(3, 9)), with);
}

TEST_F(Hdf5FormatTest, H5dumpReadsItAndOffsetsAreWhereTheManifestSays) {
  setup_.tensors = {{"parameters/w", {2, 2}}};
  const fs::path checkpoint = save(2, 1);
  const auto dump = run_command({"h5dump", "-d", "/parameters/w", (checkpoint / "master.h5").string()});
  if (dump.exit_code == 127) GTEST_SKIP() << "h5dump (hdf5-tools) is not installed";
  ASSERT_EQ(dump.exit_code, 0) << dump.errors;
  EXPECT_THAT(dump.output, HasSubstr("H5T_IEEE_F32LE"));
  const auto values = sample_values(setup_.tensors.front(), 1);
  EXPECT_THAT(dump.output, HasSubstr(fmt::format("(1,0): {:.6g}, {:.6g}", values[2], values[3])));

  const auto properties =
      run_command({"h5dump", "-p", "-d", "/parameters/w", (checkpoint / "rank-00001.h5").string()});
  const auto manifest = *verify_checkpoint(checkpoint).value().manifest;
  EXPECT_THAT(properties.output, HasSubstr("CONTIGUOUS"));
  EXPECT_THAT(properties.output, HasSubstr(fmt::format("OFFSET {}", manifest.files[1].datasets[0].offset)));
}

TEST_F(Hdf5FormatTest, EqualContentMakesEqualRankFiles) {
  const auto first = *verify_checkpoint(save(2, 5)).value().manifest;
  fs::rename(setup_.directory, directory_.path() / "aside");
  const auto second = *verify_checkpoint(save(2, 5)).value().manifest;
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(first.files[i].sha256, second.files[i].sha256);
}

}  // namespace
}  // namespace muster::checkpoint
