// Job states and reasons for waiting: Slurm's words, and what may be concluded from them.
#include "slurm/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <random>

#include "slurm/wait_reason.h"

namespace muster::slurm {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = WaitReason::Kind;

constexpr std::array kAll{JobState::kBootFail,     JobState::kCancelled,    JobState::kCompleted,
                          JobState::kCompleting,   JobState::kConfiguring,  JobState::kDeadline,
                          JobState::kFailed,       JobState::kLaunchFailed, JobState::kNodeFail,
                          JobState::kOutOfMemory,  JobState::kPending,      JobState::kPreempted,
                          JobState::kReconfigFail, JobState::kRequeued,     JobState::kRequeueFed,
                          JobState::kRequeueHold,  JobState::kResizing,     JobState::kReservationDeleted,
                          JobState::kRevoked,      JobState::kRunning,      JobState::kSignaling,
                          JobState::kSpecialExit,  JobState::kStageOut,     JobState::kStopped,
                          JobState::kSuspended,    JobState::kTimeout};

TEST(JobState, EveryNameIsReadAndEachStateIsOneThing) {
  for (const JobState state : kAll) {
    const std::string name(job_state_name(state));
    EXPECT_EQ(parse_job_state(name), state) << name;
    for (const bool may_be_requeued : {false, true}) {
      // A job that lost its nodes and will be requeued is none of the three for a moment.
      const int things = static_cast<int>(is_active(state)) + static_cast<int>(is_waiting(state)) +
                         static_cast<int>(is_final(state, may_be_requeued));
      EXPECT_LE(things, 1) << name;
      EXPECT_GE(things, may_be_requeued ? 0 : 1) << name;
    }
  }
}

TEST(JobState, WordsOfSqueueSacctAndScontrol) {
  EXPECT_EQ(parse_job_state("CANCELLED by 1000"), JobState::kCancelled);
  EXPECT_EQ(parse_job_state("CANCELLED+"), JobState::kCancelled);
  EXPECT_EQ(parse_job_state("OUT_OF_ME+"), JobState::kOutOfMemory);
  EXPECT_EQ(parse_job_state("PD"), JobState::kPending);
  EXPECT_EQ(parse_job_state("CG"), JobState::kCompleting);
  EXPECT_EQ(parse_job_state("CD"), JobState::kCompleted);
  EXPECT_EQ(parse_job_state("R"), JobState::kRunning);
  EXPECT_EQ(parse_job_state("running"), JobState::kRunning);
  EXPECT_EQ(parse_job_state("SE"), JobState::kSpecialExit);
  EXPECT_EQ(parse_job_state("RD"), JobState::kReservationDeleted);
  for (const char* text : {"", "+", "C+", "RE+", "NOT_A_STATE", "COMPLETEDX", "RUNNING+RUNNING"}) {
    EXPECT_EQ(parse_job_state(text), std::nullopt) << text;
  }
}

TEST(JobState, PreemptedIsNoEndWhenARequeueFollows) {
  EXPECT_FALSE(is_final(JobState::kPreempted, true));
  EXPECT_FALSE(is_final(JobState::kNodeFail, true));
  EXPECT_TRUE(is_final(JobState::kPreempted, false));
  EXPECT_TRUE(is_final(JobState::kCompleted, true));
  EXPECT_TRUE(is_final(JobState::kTimeout, true));
}

TEST(JobState, CompletingIsNotDone) {
  EXPECT_FALSE(is_final(JobState::kCompleting, false));
  EXPECT_TRUE(is_active(JobState::kCompleting));
  EXPECT_TRUE(is_waiting(JobState::kRequeued));
  EXPECT_FALSE(is_held(JobState::kRequeued));
  EXPECT_TRUE(is_held(JobState::kSpecialExit));
}

TEST(WaitReason, TellsWhatToWaitFor) {
  EXPECT_EQ(explain_wait("(Resources)").sentence, "waits for nodes to become free (Resources)");
  EXPECT_EQ(explain_wait("Priority").kind, Kind::kInTurn);
  EXPECT_EQ(explain_wait("BeginTime").kind, Kind::kInTurn);
  EXPECT_EQ(explain_wait("JobHeldUser").kind, Kind::kHeld);
  EXPECT_EQ(explain_wait("QOSMaxJobsPerUserLimit").kind, Kind::kLimit);
  EXPECT_EQ(explain_wait("BadConstraints").kind, Kind::kNever);
  EXPECT_EQ(explain_wait("").kind, Kind::kNoReason);
}

TEST(WaitReason, UnderscoresAndAdditionsAreSeenThrough) {
  for (const char* text : {"launch failed requeued held", "launch_failed_requeued_held"}) {
    EXPECT_EQ(explain_wait(text).kind, Kind::kHeld);
    EXPECT_THAT(explain_wait(text).sentence, StartsWith("could not be started on its nodes"));
  }
  EXPECT_EQ(explain_wait("ReqNodeNotAvail, UnavailableNodes:n[3-4]").sentence,
            "waits for nodes that are down, drained or reserved (ReqNodeNotAvail, UnavailableNodes:n[3-4])");
  EXPECT_THAT(
      explain_wait("(Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
                   "partitions)")
          .sentence,
      StartsWith("waits for nodes that are down"));
}

TEST(WaitReason, LimitsOfEveryResourceAreLimits) {
  EXPECT_EQ(explain_wait("QOSGrpGRES").kind, Kind::kLimit);
  EXPECT_EQ(explain_wait("AssocGrpCPURunMinutesLimit").kind, Kind::kLimit);
  EXPECT_EQ(explain_wait("QOSMaxGRESPerUser").kind, Kind::kLimit);
  EXPECT_EQ(explain_wait("MaxGRESPerAccount").kind, Kind::kLimit);
  EXPECT_EQ(explain_wait("QOSMaxGRESPerJob").kind, Kind::kNever);
  EXPECT_EQ(explain_wait("AssocMaxNodePerJobLimit").kind, Kind::kNever);
  EXPECT_EQ(explain_wait("QOSMinGRES").kind, Kind::kNever);
}

TEST(WaitReason, AnUnknownOneIsShownAsItIs) {
  const WaitReason unknown = explain_wait("(MoonPhase, waning)");
  EXPECT_FALSE(unknown.known);
  EXPECT_EQ(unknown.kind, Kind::kInTurn);
  EXPECT_EQ(unknown.sentence, "MoonPhase, waning");
}

TEST(WaitReason, AnyTextIsExplainedOrShown) {
  const unsigned seed = 20260712;
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 1000; ++round) {
    std::string text = "x";
    for (auto i = random() % 12; i > 0; --i) text += "QOSMaxPerUser(),_ "[random() % 18];
    EXPECT_THAT(explain_wait(text).sentence, HasSubstr(text));
    parse_job_state(text);
  }
}

}  // namespace
}  // namespace muster::slurm
