// Every task file of the table gets exactly its errors: text, line and column.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "launcher/task_spec.h"
#include "tests/unit/bad_task_files.h"

namespace muster {
namespace {

using testing::BadTaskFile;

class BadTaskFileTest : public ::testing::TestWithParam<BadTaskFile> {};

TEST_P(BadTaskFileTest, GetsExactlyItsErrors) {
  TaskFileContext context;
  context.shown_file = "task.yaml";
  context.file = "/proj/jobs/task.yaml";
  context.home = "/home/ada";
  const auto spec = parse_task(GetParam().text, context);
  ASSERT_FALSE(spec) << "no error was found in\n" << GetParam().text;
  EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
  std::istringstream lines(GetParam().errors);
  std::string expected;
  for (std::string line; std::getline(lines, line);) {
    expected += (expected.empty() ? "task.yaml:" : "\ntask.yaml:") + line;
  }
  EXPECT_EQ(spec.error().message, expected);
}

std::string name_of(const ::testing::TestParamInfo<BadTaskFile>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(FilesAndKeys, BadTaskFileTest, ::testing::ValuesIn(testing::bad_files_and_keys()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Groups, BadTaskFileTest, ::testing::ValuesIn(testing::bad_groups()), name_of);
INSTANTIATE_TEST_SUITE_P(Trainers, BadTaskFileTest, ::testing::ValuesIn(testing::bad_trainers()), name_of);

}  // namespace
}  // namespace muster
