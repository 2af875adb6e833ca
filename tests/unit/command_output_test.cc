// Short commands: what they print, how they end, and that nothing of them is left.
#include "launcher/command_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "common/clock.h"
#include "launcher/process_identity.h"
#include "tests/support/eventually.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

Result<CommandOutput> shell(const std::string& script, const CommandOptions& options = CommandOptions()) {
  return run_command({"sh", "-c", script}, options);
}

bool is_gone(const std::string& pid) {
  return testing::eventually([&] { return !process_start_ticks(std::atoi(pid.c_str())); }, seconds(10));
}

TEST(CommandOutput, TakesBothStreamsAndTheExitCode) {
  const auto output = shell("echo out; echo err >&2; exit 3");
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(output->out, "out\n");
  EXPECT_EQ(output->err, "err\n");
  EXPECT_EQ(output->exit_code, 3);
  EXPECT_EQ(output->complaint(), "err");
  EXPECT_FALSE(output->succeeded());
  EXPECT_EQ(shell("echo; echo only out")->complaint(), "only out");
  EXPECT_EQ(shell("kill -9 $$")->term_signal, SIGKILL);
}

TEST(CommandOutput, GivesNoInputAndTheEnvironmentOfTheOptions) {
  CommandOptions options;
  options.environment = {{"LC_ALL", "C"}, {"OTHER", "a b=c"}};
  EXPECT_EQ(shell("cat; echo \"$LC_ALL $OTHER $HOME\"", options)->out,
            "C a b=c " + std::string(std::getenv("HOME") == nullptr ? "" : std::getenv("HOME")) + "\n");
}

TEST(CommandOutput, ArgumentsAreNoShellsBusiness) {
  EXPECT_EQ(run_command({"printf", "%s|", "a b", "$HOME", ";*"})->out, "a b|$HOME|;*|");
}

TEST(CommandOutput, MuchOutputOnBothStreams) {
  const auto output = shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2");
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out.size(), 300'000U);
  EXPECT_EQ(output->err.size(), 300'000U);
  CommandOptions little;
  little.output_bytes_max = 1000;
  const auto refused = shell("head -c 300000 /dev/zero; sleep 100", little);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "it printed more than 1000 bytes");
}

TEST(CommandOutput, AProgramThatIsNotThere) {
  const auto output = run_command({"no-such-program-here"});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(output.error().message, HasSubstr("no-such-program-here"));
  EXPECT_EQ(run_command({"/"}).error().code, ErrorCode::kIo);
}

TEST(CommandOutput, TheDeadlineEndsTheWholeGroup) {
  char path[] = "/tmp/muster-test-XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  CommandOptions options;
  options.timeout = milliseconds(300);
  const Deadline soon = Deadline::after(seconds(10));
  const auto output =
      shell(std::string("trap '' TERM; sleep 100 & echo $! > ") + path + "; sleep 100", options);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(output.error().message, "no end within 300ms");
  EXPECT_FALSE(soon.expired());
  char pid[32] = {};
  EXPECT_GT(::pread(fd, pid, sizeof pid - 1, 0), 0);
  EXPECT_TRUE(is_gone(pid));
  ::close(fd);
  ::unlink(path);
}

// A child that holds the pipes must not hold us.
TEST(CommandOutput, WhatACommandLeavesBehindIsEndedAndNotWaitedFor) {
  const Deadline soon = Deadline::after(seconds(10));
  const auto output = shell("sleep 100 & echo $!");
  ASSERT_TRUE(output);
  EXPECT_FALSE(soon.expired());
  EXPECT_TRUE(is_gone(output->out));
}

}  // namespace
}  // namespace muster
