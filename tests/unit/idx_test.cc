#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_directory.h"
#include "trainer/data/idx_dataset.h"
#include "trainer/data/idx_file.h"

namespace muster::data {
namespace {

using std::filesystem::path;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
  return text;
}

std::string header(const std::vector<std::uint32_t>& shape, char type = 0x08) {
  std::string text = {0, 0, type, static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape) text += big_endian(size);
  return text;
}

std::string idx(const std::vector<std::uint32_t>& shape, const std::string& values) {
  return header(shape) + values;
}

void write_plain(const path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string gzipped(const path& scratch, const std::string& bytes) {
  gzFile file = gzopen(scratch.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  std::ifstream stream(scratch, std::ios::binary);
  std::string compressed((std::istreambuf_iterator<char>(stream)), {});
  std::filesystem::remove(scratch);
  return compressed;
}

TEST(IdxFile, ReadsPlainAndCompressed) {
  const TemporaryDirectory directory;
  const std::string bytes = idx({2, 1, 3}, {1, 2, 3, 4, 5, '\xff'});
  write_plain(directory.path() / "plain", bytes);
  write_plain(directory.path() / "compressed", gzipped(directory.path() / "scratch", bytes));
  for (const char* name : {"plain", "compressed"}) {
    const auto array = read_idx_file(directory.path() / name);
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_THAT(array->shape, ElementsAre(2, 1, 3));
    EXPECT_THAT(array->values, ElementsAre(1, 2, 3, 4, 5, 255));
    EXPECT_EQ(array->rows(), 2);
  }
}

TEST(IdxFile, ErrorsSayWhatIsWrong) {
  const TemporaryDirectory directory;
  const std::string good = idx({2, 2}, "abcd");
  const std::string compressed =
      gzipped(directory.path() / "scratch", idx({200, 200}, std::string(40000, 'x')));
  std::string flipped = compressed;
  flipped[flipped.size() - 6] = static_cast<char>(flipped[flipped.size() - 6] ^ 1);  // in the CRC
  struct Case {
    std::string bytes;
    const char* message;
  };
  const Case cases[] = {
      {"", "truncated: 0 bytes where the 4-byte IDX magic number should be"},
      {std::string("\0\0\x08", 3), "truncated: 3 bytes where"},
      {"PNG and so on", "not an IDX file: it begins with 504e4720"},
      {header({2, 2}, 0x0d) + "abcd", "IDX element type 0x0d; only 0x08"},
      {header({}), "0 dimensions; allowed: 1 to 4"},
      {header({1, 1, 1, 1, 1}) + "a", "5 dimensions; allowed: 1 to 4"},
      {good.substr(0, 9), "truncated in its header: the size of dimension 1 is missing"},
      {idx({2, 0}, ""), "dimension 1 is 0"},
      {header({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}), "multiply to more than"},
      {idx({0xffffffff}, "abc"), "truncated: 3 values of 4294967295 are there"},
      {good.substr(0, good.size() - 1), "truncated: 3 values of 4 are there"},
      {good + "e", "goes on after the 4 values that its header announces"},
      {compressed.substr(0, compressed.size() / 2), "damaged gzip data"},
      {compressed.substr(0, compressed.size() - 8), "damaged gzip data"},
      {flipped, "damaged gzip data"},
  };
  for (const Case& each : cases) {
    const path file = directory.path() / "file";
    write_plain(file, each.bytes);
    const auto array = read_idx_file(file);
    ASSERT_FALSE(array) << each.message;
    EXPECT_EQ(array.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(array.error().message, HasSubstr(each.message));
    EXPECT_THAT(array.error().message, HasSubstr(file.string()));
  }
  EXPECT_EQ(read_idx_file(directory.path() / "absent").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_idx_file(directory.path()).error().code, ErrorCode::kIo);
}

// A directory with a good pair of pairs, of which a test spoils one file.
struct Files {
  TemporaryDirectory directory;

  Files() {
    write("train-images-idx3-ubyte", idx({3, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16}));
    write("train-labels-idx1-ubyte", idx({3}, {0, 2, 1}));
    write("test-images-idx3-ubyte", idx({2, 2, 2}, {16, 0, 0, 0, 0, 0, 0, 8}));
    write("test-labels-idx1-ubyte", idx({2}, {2, 0}));
  }
  void write(const std::string& name, const std::string& bytes) const {
    write_plain(directory.path() / name, bytes);
  }
  void remove(const std::string& name) const { std::filesystem::remove(directory.path() / name); }
  std::string error() const {
    const auto pair = load_datasets("idx", directory.path());
    return pair ? std::string() : pair.error().message;
  }
};

TEST(IdxDataset, ScalesByTheLargestTrainingValue) {
  const Files files;
  const auto pair = load_datasets("idx", files.directory.path());
  ASSERT_TRUE(pair) << pair.error().message;
  EXPECT_EQ(pair->train->size(), 3);
  EXPECT_EQ(pair->test->size(), 2);
  EXPECT_EQ(pair->train->classes(), 3);
  EXPECT_EQ(pair->test->classes(), 3);
  EXPECT_THAT(pair->train->sample_shape(), ElementsAre(2, 2));
  float inputs[8];
  std::int32_t labels[2];
  const std::int64_t ids[] = {2, 0};
  ASSERT_TRUE(pair->train->fetch(ids, inputs, labels));
  EXPECT_THAT(inputs, ElementsAre(0.5F, 9.0F / 16, 10.0F / 16, 1, 0, 1.0F / 16, 2.0F / 16, 3.0F / 16));
  EXPECT_THAT(labels, ElementsAre(1, 0));
  ASSERT_TRUE(pair->test->fetch(std::span(ids).subspan(1), inputs, labels));
  EXPECT_EQ(inputs[0], 1.0F);
  EXPECT_EQ(labels[0], 2);
}

TEST(IdxDataset, FingerprintTellsDataApart) {
  const Files files;
  const auto before = load_datasets("idx", files.directory.path());
  ASSERT_TRUE(before);
  EXPECT_NE(before->train->fingerprint(), before->test->fingerprint());
  files.write("train-labels-idx1-ubyte", idx({3}, {0, 1, 2}));
  const auto after = load_datasets("idx", files.directory.path());
  ASSERT_TRUE(after);
  EXPECT_NE(before->train->fingerprint(), after->train->fingerprint());
  EXPECT_EQ(before->test->fingerprint(), after->test->fingerprint());
}

TEST(IdxDataset, ErrorsNameTheFile) {
  {
    const Files files;
    files.remove("test-labels-idx1-ubyte");
    EXPECT_THAT(files.error(), HasSubstr("has none of t10k-labels-idx1-ubyte, t10k-labels-idx1-ubyte.gz, "
                                         "test-labels-idx1-ubyte, test-labels-idx1-ubyte.gz"));
  }
  {
    const Files files;
    files.write("train-labels-idx1-ubyte", idx({2}, {0, 1}));
    EXPECT_THAT(files.error(),
                ::testing::ContainsRegex("train-images.* has 3 samples, but .*train-labels.* has 2"));
  }
  {
    const Files files;
    files.write("test-labels-idx1-ubyte", idx({2}, {0, 3}));
    EXPECT_THAT(files.error(),
                HasSubstr("label 3 of sample 1 is out of range: the training labels are 0 to 2"));
  }
  {
    const Files files;
    files.write("test-images-idx3-ubyte", idx({2, 1, 2}, "abcd"));
    EXPECT_THAT(files.error(), HasSubstr("has samples of [2, 2], but"));
  }
  {
    const Files files;
    files.write("train-images-idx3-ubyte", idx({3}, "abc"));
    EXPECT_THAT(files.error(), HasSubstr("1 dimension; images have at least 2"));
  }
  {
    const Files files;
    files.write("train-labels-idx1-ubyte", idx({3, 1}, {0, 1, 2}));
    EXPECT_THAT(files.error(), HasSubstr("2 dimensions; labels have 1"));
  }
  {
    const Files files;
    files.write("train-images-idx3-ubyte", idx({3, 2, 2}, std::string(12, '\0')));
    EXPECT_THAT(files.error(), HasSubstr("all values are 0"));
  }
  EXPECT_EQ(load_datasets("idx", "/nowhere/at/all").error().message,
            "data directory /nowhere/at/all is not there");
  EXPECT_EQ(load_datasets("imagenet", "/").error().message, "unknown dataset 'imagenet'; allowed: idx, hdf5");
  const Files files;
  EXPECT_EQ(load_datasets("idx", files.directory.path() / "train-labels-idx1-ubyte").error().message,
            (files.directory.path() / "train-labels-idx1-ubyte").string() +
                " is no directory; allowed: the directory that holds the data");
}

TEST(IdxDataset, ReadsTheExampleData) {
  const auto digits = load_datasets("idx", path(MUSTER_SOURCE_DIR) / "examples/data/digits8x8");
  ASSERT_TRUE(digits) << digits.error().message;
  EXPECT_EQ(digits->train->size(), 1500);
  EXPECT_EQ(digits->test->size(), 297);
  // SHA-256 of "idx [1500,8,8] 10 16\n", images and labels: checkpoints are bound to it.
  EXPECT_EQ(digits->train->fingerprint(), "2d63f0a23b6a681c47c0dd06cf5c58d15a469c28c20bec649e03bc91c5325895");
  const auto mnist = load_datasets("idx", path(MUSTER_SOURCE_DIR) / "examples/data/mnist10k");
  ASSERT_TRUE(mnist) << mnist.error().message;
  EXPECT_EQ(mnist->train->size(), 8000);
  EXPECT_EQ(mnist->test->size(), 2000);
  EXPECT_EQ(mnist->train->classes(), 10);
  EXPECT_THAT(mnist->test->sample_shape(), ElementsAre(28, 28));
}

}  // namespace
}  // namespace muster::data
