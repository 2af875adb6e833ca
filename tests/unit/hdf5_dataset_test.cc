// HDF5 data: what is read is what was written, and what cannot be used is named with its file and dataset.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <tuple>

#include "tests/support/hdf5_files.h"
#include "tests/support/temporary_directory.h"
#include "trainer/data/dataset.h"
#include "trainer/handles/hdf5_handles.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<float> kFloats = {0.5F, -1.F, 2.F, 3.F, 4.F, 5.F, 6.F, 7.F, 8.F, 9.F, 10.F, 11.F};

// train.h5 and test.h5 that are all right: 3 and 2 samples of 2×2 floats, classes 0 to 2.
class Hdf5Dataset : public ::testing::Test {
 protected:
  void SetUp() override {
    write("train.h5", {3, 2, 2}, H5T_IEEE_F32LE, {3}, {0, 2, 1});
    write("test.h5", {2, 2, 2}, H5T_IEEE_F32LE, {2}, {1, 0});
  }
  fs::path path(const std::string& name) const { return directory_.path() / name; }
  // Floats are converted to `type`, labels are stored as 16-bit signed big-endian integers.
  void write(const std::string& name, const std::vector<hsize_t>& x_shape, hid_t type,
             const std::vector<hsize_t>& y_shape, const std::vector<int>& labels) const {
    const auto lock = hdf5_lock();
    const Hdf5Id file = testing::create_hdf5(path(name));
    testing::add_dataset(file, "x", x_shape, type, H5T_NATIVE_FLOAT, kFloats);
    testing::add_dataset(file, "y", y_shape, H5T_STD_I16BE, H5T_NATIVE_INT, labels);
  }
  Result<DatasetPair> load() const { return load_datasets("hdf5", directory_.path()); }
  std::string error() const {
    const auto pair = load();
    EXPECT_FALSE(pair);
    return pair ? "" : pair.error().message;
  }
  // The error with the directory left out.
  std::string short_error() const {
    std::string text = error();
    const std::string prefix = directory_.path().string() + "/";
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }
  testing::TemporaryDirectory directory_;
};

TEST_F(Hdf5Dataset, FloatsAreReadAsTheyAre) {
  const auto pair = load();
  ASSERT_TRUE(pair) << pair.error().message;
  EXPECT_EQ(pair->train->size(), 3);
  EXPECT_EQ(pair->train->classes(), 3);
  EXPECT_THAT(pair->train->sample_shape(), ElementsAre(2, 2));
  std::vector<float> inputs(8);
  std::vector<std::int32_t> labels(2);
  const std::vector<std::int64_t> ids = {2, 0};
  ASSERT_TRUE(pair->train->fetch(ids, inputs.data(), labels.data()));
  EXPECT_THAT(inputs, ElementsAre(8.F, 9.F, 10.F, 11.F, 0.5F, -1.F, 2.F, 3.F));
  EXPECT_THAT(labels, ElementsAre(1, 0));
}

TEST_F(Hdf5Dataset, BytesAreScaledByTheLargestOfTheTrainingDataAndMayBeCompressed) {
  for (const auto& [name, first] : {std::pair{"train.h5", 0}, std::pair{"test.h5", 5}}) {
    const auto lock = hdf5_lock();
    const Hdf5Id file = testing::create_hdf5(path(name));
    std::vector<std::uint8_t> bytes(8);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(first + 10 * i);
    testing::add_dataset(file, "x", {2, 4}, H5T_STD_U8LE, H5T_NATIVE_UINT8, bytes, 1);
    testing::add_dataset(file, "y", {2}, H5T_STD_U8LE, H5T_NATIVE_UINT8, std::vector<std::uint8_t>{0, 1});
  }
  const auto pair = load();
  ASSERT_TRUE(pair) << pair.error().message;
  std::vector<float> inputs(4);
  std::int32_t label = -1;
  const std::vector<std::int64_t> ids = {1};
  ASSERT_TRUE(pair->train->fetch(ids, inputs.data(), &label));
  EXPECT_EQ(inputs[3], 1.F);
  EXPECT_EQ(inputs[0], static_cast<float>(40.0 / 70.0));
  ASSERT_TRUE(pair->test->fetch(ids, inputs.data(), &label));
  EXPECT_EQ(inputs[3], static_cast<float>(75.0 / 70.0)) << "the test data has the training data's scale";
}

TEST_F(Hdf5Dataset, TheFingerprintIsOfValuesAndLabels) {
  const auto before = load();
  const auto same = load();
  write("train.h5", {3, 2, 2}, H5T_IEEE_F32LE, {3}, {0, 2, 2});
  const auto after = load();
  ASSERT_TRUE(before && same && after);
  EXPECT_EQ(before->train->fingerprint(), same->train->fingerprint());
  EXPECT_NE(before->train->fingerprint(), after->train->fingerprint());
}

TEST_F(Hdf5Dataset, MissingFilesAndDatasetsAreNamed) {
  fs::remove(path("test.h5"));
  EXPECT_EQ(error(), directory_.path().string() + " has no test.h5");
  {
    const auto lock = hdf5_lock();
    testing::add_dataset(testing::create_hdf5(path("train.h5")), "x", {3, 4}, H5T_IEEE_F32LE,
                         H5T_NATIVE_FLOAT, kFloats);
  }
  EXPECT_EQ(short_error(), "train.h5: there is no dataset /y; needed: /x (samples) and /y (labels)");
  EXPECT_EQ(load_datasets("hdf5", "/nowhere/at/all").error().message,
            "data directory /nowhere/at/all is not there");
}

TEST_F(Hdf5Dataset, OtherTypesAreRefused) {
  write("train.h5", {3, 2, 2}, H5T_IEEE_F64LE, {3}, {0, 2, 1});
  EXPECT_EQ(short_error(),
            "train.h5: /x holds 64-bit floats; allowed: 32-bit floats, 8-bit unsigned integers");
  write("train.h5", {3, 2, 2}, H5T_STD_I8LE, {3}, {0, 2, 1});
  EXPECT_THAT(short_error(), HasSubstr("train.h5: /x holds 8-bit signed integers; allowed:"));
  {
    const auto lock = hdf5_lock();
    const Hdf5Id file = testing::create_hdf5(path("train.h5"));
    testing::add_dataset(file, "x", {3, 4}, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, kFloats);
    testing::add_dataset(file, "y", {3}, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, kFloats);
  }
  EXPECT_EQ(short_error(), "train.h5: /y holds 32-bit floats; allowed: integers");
}

TEST_F(Hdf5Dataset, ShapesThatDoNotFitAreRefused) {
  write("train.h5", {12}, H5T_IEEE_F32LE, {3}, {0, 2, 1});
  EXPECT_EQ(short_error(),
            "train.h5: /x has shape [12]; allowed: samples first, then 1 to 3 dimensions of a sample");
  write("train.h5", {3, 4}, H5T_IEEE_F32LE, {3, 1}, {0, 2, 1});
  EXPECT_EQ(short_error(), "train.h5: /y has shape [3, 1]; allowed: one dimension, a label for each sample");
  write("train.h5", {3, 4}, H5T_IEEE_F32LE, {2}, {0, 2});
  EXPECT_EQ(short_error(), "train.h5: /x has 3 samples, but train.h5: /y has 2 labels");
  write("train.h5", {3, 4}, H5T_IEEE_F32LE, {3}, {0, 2, 1});
  EXPECT_EQ(short_error(), "train.h5: /x has samples of [4], but test.h5: /x of [2, 2]");
}

TEST_F(Hdf5Dataset, LabelsOutOfRangeAreNamed) {
  write("train.h5", {3, 2, 2}, H5T_IEEE_F32LE, {3}, {0, -7, 1});
  EXPECT_EQ(short_error(), "train.h5: /y: label -7 of sample 1 is out of range: labels are 0 to 1048575");
  write("train.h5", {3, 2, 2}, H5T_IEEE_F32LE, {3}, {0, 2, 1});
  write("test.h5", {2, 2, 2}, H5T_IEEE_F32LE, {2}, {1, 3});
  EXPECT_EQ(short_error(),
            "test.h5: /y: label 3 of sample 1 is out of range: the training labels are 0 to 2");
}

TEST_F(Hdf5Dataset, AValueThatIsNotFiniteIsNamedWithItsSample) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto& [name, samples, value, text] :
       {std::tuple{"train.h5", 3, std::numeric_limits<float>::quiet_NaN(), "nan"},
        std::tuple{"test.h5", 2, infinity, "inf"}, std::tuple{"test.h5", 2, -infinity, "-inf"}}) {
    SetUp();
    std::vector<float> values = kFloats;
    values[6] = value;
    std::vector<int> labels(static_cast<std::size_t>(samples), 0);
    {
      const auto lock = hdf5_lock();
      const Hdf5Id file = testing::create_hdf5(path(name));
      testing::add_dataset(file, "x", {static_cast<hsize_t>(samples), 2, 2}, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT,
                           values);
      testing::add_dataset(file, "y", {static_cast<hsize_t>(samples)}, H5T_STD_U8LE, H5T_NATIVE_INT, labels);
    }
    EXPECT_EQ(short_error(),
              fmt::format("{}: /x: value 2 of sample 1 is {}; allowed: finite numbers", name, text));
    EXPECT_EQ(load().error().code, ErrorCode::kCorrupt);
  }
}

TEST_F(Hdf5Dataset, DamagedFilesAreNamed) {
  fs::resize_file(path("train.h5"), fs::file_size(path("train.h5")) - 20);
  EXPECT_THAT(short_error(), HasSubstr("train.h5: HDF5 cannot open it: "));
  EXPECT_EQ(load().error().code, ErrorCode::kCorrupt);
  std::ofstream(path("train.h5"), std::ios::trunc) << "not at all HDF5";
  EXPECT_EQ(short_error(), "train.h5 is not an HDF5 file");
}

}  // namespace
}  // namespace muster::data
