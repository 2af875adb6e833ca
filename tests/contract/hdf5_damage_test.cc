// Whatever is damaged in a checkpoint, verify names it, and resuming falls back to the one before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/checkpoint/hash.h"
#include "common/checkpoint/verify.h"
#include "common/sha256.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/hdf5_store_helpers.h"
#include "tests/support/temporary_directory.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::load_sample;
using testing::save_sample;
using testing::StoreSetup;

void flip_byte(const fs::path& path, std::int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const int byte = file.get();
  ASSERT_NE(byte, EOF) << path;
  file.seekp(offset);
  file.put(static_cast<char>(byte ^ 0x10));
}

class Hdf5DamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setup_.directory = directory_.path() / "checkpoints";
    setup_.ranks = 2;
    setup_.retention.keep_last = 3;
    setup_.tensors = testing::small_tensors();
    for (const std::int64_t step : {1, 2}) {
      for (const auto& outcome : save_sample(setup_, step)) ASSERT_TRUE(outcome) << outcome.error().message;
    }
    manifest_ = *verify_checkpoint(newest()).value().manifest;
  }

  fs::path newest() const { return setup_.directory / "step-000000000002"; }

  const StoredRows& rows_in(const std::string& file, const std::string& tensor) const {
    for (const StoredFile& stored : manifest_.files) {
      for (const StoredRows& rows : stored.datasets) {
        if (stored.name == file && rows.tensor == tensor) return rows;
      }
    }
    throw std::runtime_error("no such rows");
  }

  // verify finds exactly this; then every number of ranks falls back, and it is in quarantine with the
  // reason.
  void expect_found_and_passed_over(const std::string& file, const std::vector<std::string>& datasets,
                                    const std::string& what) {
    const auto verification = verify_checkpoint(newest());
    ASSERT_TRUE(verification) << verification.error().message;
    ASSERT_EQ(verification->problems.size(), 1U);
    EXPECT_EQ(verification->problems[0].file, file);
    EXPECT_EQ(verification->problems[0].datasets, datasets);
    EXPECT_THAT(verification->problems[0].what, HasSubstr(what));
    for (const int ranks : {1, 2, 3}) {
      const testing::TemporaryDirectory copy;
      StoreSetup other = setup_;
      other.directory = copy.path() / "copy";
      other.ranks = ranks;
      fs::copy(setup_.directory, other.directory, fs::copy_options::recursive);
      const auto loaded = load_sample(other);
      ASSERT_TRUE(loaded) << loaded.error().message;
      EXPECT_EQ(loaded->step, 1);
      ASSERT_EQ(loaded->quarantined.size(), 1U);
      EXPECT_THAT(loaded->quarantined[0].reason, AllOf(HasSubstr(file), HasSubstr(what)));
      EXPECT_EQ(loaded->quarantined[0].path, (other.directory / "quarantine" / "step-000000000002").string());
      EXPECT_EQ(read_text_file(other.directory / "quarantine" / "step-000000000002" / kReasonFile).value(),
                loaded->quarantined[0].reason + "\n");
    }
  }

  testing::TemporaryDirectory directory_;
  StoreSetup setup_;
  Manifest manifest_;
};

TEST_F(Hdf5DamageTest, AFlippedByteInTensorDataNamesFileAndDataset) {
  const StoredRows& rows = rows_in("rank-00001.h5", "optimizer/a/exp_avg");
  flip_byte(newest() / "rank-00001.h5", rows.offset + rows.bytes - 1);
  expect_found_and_passed_over("rank-00001.h5", {"optimizer/a/exp_avg"}, "is damaged");
}

TEST_F(Hdf5DamageTest, AFlippedByteOutsideTensorDataNamesTheFile) {
  flip_byte(newest() / "rank-00000.h5", 0);
  expect_found_and_passed_over("rank-00000.h5", {}, "outside any dataset");
}

TEST_F(Hdf5DamageTest, AFlippedByteInTheMasterFile) {
  flip_byte(newest() / "master.h5", static_cast<std::int64_t>(fs::file_size(newest() / "master.h5")) / 2);
  expect_found_and_passed_over("master.h5", {}, "outside any dataset");
}

TEST_F(Hdf5DamageTest, AFlippedByteInTheManifest) {
  flip_byte(newest() / "manifest.json", 200);
  expect_found_and_passed_over("manifest.json", {}, "is damaged");
}

TEST_F(Hdf5DamageTest, AFlippedByteInTheMarker) {
  flip_byte(newest() / "COMMITTED", 60);
  expect_found_and_passed_over("COMMITTED", {}, "is damaged");
}

// Every byte of every file, one after the other: verify finds each, in the right file, and names a dataset
// exactly if the byte lies in one.
TEST_F(Hdf5DamageTest, EveryByteCounts) {
  for (const auto& entry : fs::directory_iterator(newest())) {
    const std::string file = entry.path().filename().string();
    const auto size = static_cast<std::int64_t>(entry.file_size());
    // All bytes of small files; of the HDF5 files every 7th (a prime, so that each kind of field is hit).
    const std::int64_t stride = file.ends_with(".h5") ? 7 : 1;
    for (std::int64_t offset = 0; offset < size; offset += stride) {
      flip_byte(entry.path(), offset);
      const auto verification = verify_checkpoint(newest());
      flip_byte(entry.path(), offset);
      ASSERT_TRUE(verification) << verification.error().message;
      ASSERT_EQ(verification->problems.size(), 1U) << file << " at " << offset;
      EXPECT_EQ(verification->problems[0].file, file) << offset;
      std::vector<std::string> expected;
      for (const StoredFile& stored : manifest_.files) {
        for (const StoredRows& rows : stored.datasets) {
          if (stored.name == file && offset >= rows.offset && offset < rows.offset + rows.bytes) {
            expected.push_back(rows.tensor);
          }
        }
      }
      EXPECT_EQ(verification->problems[0].datasets, expected) << file << " at " << offset;
    }
  }
  EXPECT_TRUE(verify_checkpoint(newest())->sound());
}

TEST_F(Hdf5DamageTest, AMissingRankFileNamesItsDatasets) {
  fs::remove(newest() / "rank-00001.h5");
  expect_found_and_passed_over("rank-00001.h5", {"parameters/a", "optimizer/a/exp_avg", "parameters/b"},
                               "is missing");
}

TEST_F(Hdf5DamageTest, AMissingMasterFile) {
  fs::remove(newest() / "master.h5");
  expect_found_and_passed_over("master.h5", {}, "is missing");
}

TEST_F(Hdf5DamageTest, AMissingManifest) {
  fs::remove(newest() / "manifest.json");
  expect_found_and_passed_over("manifest.json", {}, "is missing");
}

TEST_F(Hdf5DamageTest, ATruncatedFileNamesWhatIsCutOff) {
  const StoredRows& last = rows_in("rank-00000.h5", "parameters/b");
  fs::resize_file(newest() / "rank-00000.h5", static_cast<std::uintmax_t>(last.offset + 1));
  expect_found_and_passed_over("rank-00000.h5", {"parameters/b"}, "bytes long, the manifest says");
}

TEST_F(Hdf5DamageTest, AnEmptyFileAndATooLongOne) {
  fs::resize_file(newest() / "rank-00000.h5", 0);
  auto verification = verify_checkpoint(newest());
  EXPECT_THAT(verification->problems.at(0).datasets, ::testing::SizeIs(3));
  fs::resize_file(newest() / "master.h5", 1 << 20);
  verification = verify_checkpoint(newest());
  ASSERT_EQ(verification->problems.size(), 2U);
  EXPECT_THAT(verification->problems[1].what, HasSubstr("is 1048576 bytes long"));
}

TEST_F(Hdf5DamageTest, WithoutAMarkerItWasNeverCommitted) {
  fs::remove(newest() / "COMMITTED");
  const auto loaded = load_sample(setup_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->step, 1);
  EXPECT_THAT(loaded->quarantined, IsEmpty());
  EXPECT_FALSE(fs::exists(newest()));
}

TEST_F(Hdf5DamageTest, QuarantineKeepsAllThatWereEverDamaged) {
  for (const char* expected : {"step-000000000002", "step-000000000002-2", "step-000000000002-3"}) {
    fs::remove(newest() / "master.h5");
    const auto loaded = load_sample(setup_);
    ASSERT_TRUE(loaded);
    ASSERT_EQ(loaded->quarantined.size(), 1U);
    EXPECT_EQ(fs::path(loaded->quarantined[0].path).filename(), expected);
    for (const auto& outcome : save_sample(setup_, 2)) ASSERT_TRUE(outcome);
  }
  EXPECT_EQ(load_sample(setup_)->step, 2);
}

TEST_F(Hdf5DamageTest, AllDamagedMeansNoneIsLeft) {
  for (const char* step : {"step-000000000001", "step-000000000002"}) {
    fs::remove(setup_.directory / step / "rank-00000.h5");
  }
  const auto loaded = load_sample(setup_);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->step, -1);
  EXPECT_EQ(loaded->quarantined.size(), 2U);
}

// With a sound marker: the manifest is as it was written, by a program of the future.
TEST_F(Hdf5DamageTest, ACheckpointOfAnotherVersionIsRefusedAndLeftWhereItIs) {
  std::ifstream in(newest() / kManifestFile);
  json manifest = json::parse(in);
  manifest["version"] = 2;
  const std::string text = manifest.dump();
  std::ofstream(newest() / kManifestFile) << text;
  std::ofstream(newest() / kMarkerFile) << marker_text(sha256_hex(text.data(), text.size()));
  const auto loaded = load_sample(setup_);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(loaded.error().message, AllOf(HasSubstr("step-000000000002"), HasSubstr("format version 2")));
  EXPECT_EQ(step_directories(setup_.directory)->size(), 2U);
  EXPECT_FALSE(fs::exists(setup_.directory / kQuarantineDirectory));
}

TEST_F(Hdf5DamageTest, BytesThatRotAfterTheLoadAreNotHandedOut) {
  const auto statuses = testing::on_ranks(1, [&](const Group& group) -> Status {
    MUSTER_ASSIGN(const auto store, testing::open_store(setup_, group));
    MUSTER_ASSIGN(const LoadOutcome outcome, store->load_latest());
    flip_byte(newest() / "rank-00001.h5", rows_in("rank-00001.h5", "parameters/a").offset);
    std::vector<float> values(15);
    MUSTER_TRY(outcome.checkpoint->read_rows("optimizer/a/exp_avg", 0, 5, values.data()));
    MUSTER_TRY(outcome.checkpoint->read_rows("parameters/a", 0, 2, values.data()));  // rank 0's rows
    return outcome.checkpoint->read_rows("parameters/a", 0, 5, values.data());
  });
  ASSERT_FALSE(statuses.front());
  EXPECT_EQ(statuses.front().error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(
      statuses.front().error().message,
      AllOf(HasSubstr("rank-00001.h5: dataset 'parameters/a' is damaged"), HasSubstr("the manifest says")));
}

TEST_F(Hdf5DamageTest, TheHashIsOfWhatWasWrittenOrAnError) {
  const TensorReader reader(newest(), manifest_);
  ASSERT_TRUE(canonical_hash(reader));
  flip_byte(newest() / "rank-00001.h5", rows_in("rank-00001.h5", "parameters/a").offset);
  EXPECT_EQ(canonical_hash(reader).error().code, ErrorCode::kCorrupt);
  fs::remove(newest() / "rank-00001.h5");
  EXPECT_EQ(canonical_hash(reader).error().code, ErrorCode::kCorrupt);
}

TEST_F(Hdf5DamageTest, SavingADamagedStepAgainReplacesIt) {
  flip_byte(newest() / "rank-00000.h5", 0);
  const auto outcomes = save_sample(setup_, 2);
  ASSERT_TRUE(outcomes.front()) << outcomes.front().error().message;
  EXPECT_EQ(fs::path(outcomes.front()->path).filename(), "step-000000000002.2");
  EXPECT_EQ(load_sample(setup_)->step, 2);
}

TEST_F(Hdf5DamageTest, SavingAnEqualStepAgainKeepsTheFirst) {
  const auto before = fs::last_write_time(newest() / "COMMITTED");
  const auto outcomes = save_sample(setup_, 2);
  ASSERT_TRUE(outcomes.front());
  EXPECT_EQ(outcomes.front()->path, newest().string());
  EXPECT_EQ(fs::last_write_time(newest() / "COMMITTED"), before);
  EXPECT_EQ(step_directories(setup_.directory)->size(), 2U);
}

TEST_F(Hdf5DamageTest, SavingAStepAgainWithOtherContentReplacesIt) {
  ASSERT_TRUE(save_sample(setup_, 2, 0.5).front());
  const auto directories = step_directories(setup_.directory);
  ASSERT_EQ(directories->size(), 2U);
  EXPECT_EQ(directories->back().name, (StepName{2, 2}));
  EXPECT_EQ(load_sample(setup_)->step, 2);
}

TEST_F(Hdf5DamageTest, TheFenceIsLookedAtRightBeforePublishing) {
  // Attempt 2 starts when attempt 1 has nearly finished its save.
  testing::FaultyFileOps ops;
  ops.before_open([&](const fs::path& path) {
    if (path.filename() != kManifestFile) return;
    ASSERT_TRUE(publish_file(posix_file_ops(), setup_.directory / kFenceFile, "2\n"));
  });
  setup_.ops = &ops;
  for (const auto& outcome : save_sample(setup_, 3)) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kAborted);
    EXPECT_THAT(outcome.error().message, HasSubstr("attempt 2 has taken over"));
  }
  EXPECT_EQ(step_directories(setup_.directory)->back().name.step, 2);
  EXPECT_EQ(load_sample(setup_).error().code, ErrorCode::kAborted);
}

TEST_F(Hdf5DamageTest, ADamagedFenceIsAnErrorThatSaysWhatToDo) {
  std::ofstream(setup_.directory / kFenceFile) << "two\n";
  EXPECT_THAT(load_sample(setup_).error().message, HasSubstr("Remove it if no attempt is running"));
}

TEST_F(Hdf5DamageTest, TooLittleSpaceIsSeenBeforeAnythingIsWritten) {
  testing::FaultyFileOps ops;
  setup_.ops = &ops;
  setup_.free_space = [](const fs::path&) -> Result<FreeSpace> { return FreeSpace{1000, "left"}; };
  const auto outcomes = save_sample(setup_, 3);
  ASSERT_FALSE(outcomes.back());
  EXPECT_EQ(outcomes.back().error().code, ErrorCode::kNoSpace);
  EXPECT_THAT(outcomes.back().error().message, HasSubstr("1000 bytes are left"));
  EXPECT_EQ(ops.calls(), 0);
  EXPECT_EQ(load_sample(setup_)->step, 2);
}

TEST_F(Hdf5DamageTest, ADamagedRevisionGoesWhenItIsReplaced) {
  flip_byte(newest() / "manifest.json", 200);
  ASSERT_TRUE(save_sample(setup_, 2).front());
  const auto directories = step_directories(setup_.directory);
  ASSERT_EQ(directories->size(), 2U);
  EXPECT_EQ(directories->back().name, (StepName{2, 2}));
}

// Two ranks whose directories of the same name are not the same: a node without the shared file system.
class SeparateDirectoriesTest : public Hdf5DamageTest {
 protected:
  void SetUp() override {
    Hdf5DamageTest::SetUp();
    fs::copy(setup_.directory, other_, fs::copy_options::recursive);
    fs::remove(other_ / kFenceFile);  // only rank 0 claims a directory
  }

  template <class Body>
  auto on_two_nodes(const Body& body) {
    return testing::on_ranks(2, [&](const Group& group) {
      StoreSetup mine = setup_;
      if (group.rank == 1) mine.directory = other_;
      return body(mine, group);
    });
  }

  Status save_step_3(const StoreSetup& mine, const Group& group) {
    const testing::SampleShare share(mine.tensors, 3, group.rank, group.size);
    SaveRequest request;
    request.step = 3;
    request.state = testing::sample_state(3);
    request.slices = share.slices();
    request.generation = 1;
    MUSTER_ASSIGN(const auto store, testing::open_store(mine, group));
    MUSTER_TRY(save_and_wait(*store, request, std::chrono::minutes(1)));
    return {};
  }

  fs::path other_ = directory_.path() / "other";
};

TEST_F(SeparateDirectoriesTest, AFileThatOnlyAnotherRankMissesIsNotDamage) {
  fs::remove(other_ / "step-000000000002" / "rank-00001.h5");
  const auto outcomes = on_two_nodes([](const StoreSetup& mine, const Group& group) -> Status {
    MUSTER_ASSIGN(const auto store, testing::open_store(mine, group));
    MUSTER_TRY(store->load_latest());
    return {};
  });
  for (const auto& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(outcome.error().message,
                AllOf(HasSubstr("rank 1 says that"), HasSubstr("rank-00001.h5 is missing"),
                      HasSubstr("file system that all ranks share")));
  }
  EXPECT_TRUE(fs::exists(newest()));
}

// With rank 0's fence in sight, the file system is shared, and somebody cleared the directory: training goes
// on.
TEST_F(SeparateDirectoriesTest, ADirectoryThatSomebodyRemovedIsNoFileSystemThatIsNotShared) {
  fs::copy(setup_.directory / kFenceFile, other_ / kFenceFile);
  const auto save = [this](const StoreSetup& mine, const Group& group) { return save_step_3(mine, group); };
  for (const auto& outcome : on_two_nodes(save)) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kIo);
    EXPECT_THAT(outcome.error().message, HasSubstr("somebody removed the directory"));
  }
}

TEST_F(SeparateDirectoriesTest, ASaveSaysThatTheFileSystemIsNotShared) {
  const auto save = [this](const StoreSetup& mine, const Group& group) { return save_step_3(mine, group); };
  for (const auto& outcome : on_two_nodes(save)) {
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().message, HasSubstr("rank 1: cannot create"));
    EXPECT_THAT(outcome.error().message, HasSubstr("must lie on a file system that all ranks share"));
  }
  // A directory that is there, but not its files: not shared either.
  fs::create_directory(other_ / partial_directory_name(1, 3));
  for (const auto& outcome : on_two_nodes(save)) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(outcome.error().message, HasSubstr("rank 0 does not see"));
  }
  EXPECT_EQ(step_directories(setup_.directory)->size(), 2U);
}

TEST_F(Hdf5DamageTest, OptionsThatCannotWorkAreRefused) {
  setup_.retention.keep_last = 0;
  EXPECT_THAT(load_sample(setup_).error().message, HasSubstr("keep_last is 0"));
  setup_.retention.keep_last = 1;
  setup_.directory.clear();
  EXPECT_EQ(load_sample(setup_).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster::checkpoint
