#include "common/file_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include "common/sha256.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

using testing::TemporaryDirectory;

std::size_t entries_in(const std::filesystem::path& directory) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator()));
}

TEST(FileOps, PublishReplacesWholeFilesAndLeavesNoDebris) {
  TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  ASSERT_TRUE(publish_file(posix_file_ops(), path, "first"));
  ASSERT_TRUE(publish_file(posix_file_ops(), path, "second", 0600));
  EXPECT_EQ(read_text_file(path).value(), "second");
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  EXPECT_EQ(entries_in(directory.path()), 1u);
}

TEST(FileOps, AFailureNamesThePathAndTheReason) {
  TemporaryDirectory directory;
  const Status status = publish_file(posix_file_ops(), directory.path() / "no" / "file", "text");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(status.error().message,
            "cannot create " + (directory.path() / "no" / "file").string() + ": No such file or directory")
      << "the file that was meant, not its temporary name";
  std::filesystem::create_directories(directory.path() / "folder" / "in it");
  const Status onto = publish_file(posix_file_ops(), directory.path() / "folder", "text");
  ASSERT_FALSE(onto);
  EXPECT_THAT(onto.error().message,
              ::testing::StartsWith("cannot replace " + (directory.path() / "folder").string() + ": "));
  EXPECT_FALSE(read_text_file(directory.path()));
}

// Reading such a file once threw: a process of /proc can end between open and read, and read(2) then fails.
TEST(FileOps, AReadThatFailsIsAnErrorAndNoException) {
  const auto text = read_text_file("/proc/self/mem");  // address 0 is not mapped: EIO
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kIo);
}

TEST(FileOps, WriteNewFileRefusesToOverwrite) {
  TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  ASSERT_TRUE(write_new_file(posix_file_ops(), path, as_byte_span("a")));
  const Status again = write_new_file(posix_file_ops(), path, as_byte_span("b"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(read_text_file(path).value(), "a");
}

TEST(FileOps, TreesAreMadeAndRemoved) {
  TemporaryDirectory directory;
  const auto deep = directory.path() / "a" / "b" / "c";
  ASSERT_TRUE(make_directories(posix_file_ops(), deep));
  ASSERT_TRUE(make_directories(posix_file_ops(), deep));
  ASSERT_TRUE(publish_file(posix_file_ops(), deep / "file", "x"));
  std::filesystem::create_symlink(directory.path(), deep / "link");
  ASSERT_TRUE(remove_tree(posix_file_ops(), directory.path() / "a"));
  ASSERT_TRUE(remove_tree(posix_file_ops(), directory.path() / "a"));
  EXPECT_EQ(entries_in(directory.path()), 0u);
}

TEST(FileOps, ErrnoBecomesAnErrorCode) {
  EXPECT_EQ(error_code_of_errno(ENOSPC), ErrorCode::kNoSpace);
  EXPECT_EQ(error_code_of_errno(EDQUOT), ErrorCode::kNoSpace);
  EXPECT_EQ(error_code_of_errno(EACCES), ErrorCode::kDenied);
}

// FIPS 180-4 example vectors.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, AFileHashesLikeItsBytes) {
  TemporaryDirectory directory;
  const std::string bytes(3 << 20, 'x');
  ASSERT_TRUE(publish_file(posix_file_ops(), directory.path() / "big", bytes));
  EXPECT_EQ(sha256_file(directory.path() / "big").value(), sha256_hex(bytes.data(), bytes.size()));
}

TEST(SyncDirectory, OfABareFileNamesParentIsTheWorkingDirectorys) {
  EXPECT_TRUE(sync_directory(posix_file_ops(), std::filesystem::path("name").parent_path()));
  EXPECT_FALSE(sync_directory(posix_file_ops(), "no-such-directory"));
}

}  // namespace
}  // namespace muster
