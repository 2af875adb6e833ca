#include "slurm/scontrol_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "tests/unit/recorded_output.h"

namespace muster::slurm {
namespace {

using ::testing::IsEmpty;
using testing::recorded_output;
using ::testing::SizeIs;

TEST(ScontrolRecord, NodesWithFreeTextInTheMiddleAndAtTheEnd) {
  const auto nodes = parse_scontrol_records(recorded_output("qos_gpus/scontrol_node.txt"));
  ASSERT_THAT(nodes, SizeIs(4));
  EXPECT_EQ(nodes[3].text("NodeName"), "n4");
  EXPECT_EQ(nodes[3].text("OS"), "Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC @0");
  EXPECT_EQ(nodes[3].text("RealMemory"), "4096");
  EXPECT_EQ(nodes[3].text("Gres"), "gpu:a100:2");
  EXPECT_EQ(nodes[3].text("State"), "IDLE+DRAIN");
  EXPECT_EQ(nodes[3].text("AllocTRES"), "");
  EXPECT_EQ(nodes[3].text("Reason"), "bad disk: see ticket 7, State=unknown [root@2026-12-01T02:36:13]");
  EXPECT_EQ(nodes[0].find("Reason"), std::nullopt);
  EXPECT_EQ(nodes[0].find("MCS_label"), std::nullopt);  // N/A
}

TEST(ScontrolRecord, ACommentThatLooksLikeFieldsIsOneValue) {
  const auto jobs = parse_scontrol_records(recorded_output("qos_gpus/scontrol_job.txt"));
  ASSERT_THAT(jobs, SizeIs(3));
  EXPECT_EQ(jobs[0].text("Comment"), "two words Key=Value, and a comma");
  EXPECT_EQ(jobs[0].text("StdErr"), "/dev/null");
  EXPECT_EQ(jobs[0].text("TresPerNode"), "gres:gpu:a100:1");
  EXPECT_EQ(jobs[0].text("ReqB:S:C:T"), "0:0:*:*");
  EXPECT_EQ(jobs[0].text("CPUs/Task"), "1");
  EXPECT_EQ(jobs[0].text("Reason"), "JobHeldUser");
  EXPECT_EQ(jobs[0].text("NodeList"), "");
  EXPECT_EQ(jobs[0].find("Command"), std::nullopt);
  EXPECT_EQ(jobs[2].text("JobState"), "CANCELLED");
}

// A job's name stands before its state.
TEST(ScontrolRecord, AJobsNameCannotSayItsState) {
  const auto jobs = parse_scontrol_records(
      "JobId=5 JobName=x JobState=COMPLETED UserId=a(1) JobState=RUNNING Comment=JobState=FAILED StdErr=/e "
      "StdIn=/dev/null StdOut=/out put Power= \n");
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(jobs[0].text("JobState"), "RUNNING");
  EXPECT_EQ(jobs[0].text("JobName"), "x JobState=COMPLETED");
  EXPECT_EQ(jobs[0].text("Comment"), "JobState=FAILED");
  EXPECT_EQ(jobs[0].text("StdOut"), "/out put");
}

TEST(ScontrolRecord, OtherLinesArePassedOver) {
  EXPECT_THAT(parse_scontrol_records("No jobs in the system\n"), IsEmpty());
  EXPECT_THAT(parse_scontrol_records(""), IsEmpty());
  EXPECT_THAT(parse_scontrol_records("Welcome to a=b!\n\nPartitionName=x State=UP\n"), SizeIs(1));
}

TEST(ScontrolConfig, KeysAndValues) {
  const ScontrolRecord config = parse_scontrol_config(recorded_output("qos_gpus/scontrol_config.txt"));
  EXPECT_EQ(config.text("ClusterName"), "emulated");
  EXPECT_EQ(config.text("PreemptType"), "preempt/qos");
  EXPECT_EQ(config.text("AuthInfo"), "cred_expire=120");
  EXPECT_EQ(config.text("PowerPlugin"), "");
  EXPECT_EQ(config.text("SlurmctldHost[0]"), "ctl(10.77.0.10)");
  EXPECT_EQ(config.text("PMIxTimeout"), "300");
  EXPECT_EQ(config.find("Prolog"), std::nullopt);  // (null)
  EXPECT_EQ(config.text("NotThere"), "");
}

// Any cutting and mixing ends, and no field's text is lost or made up.
TEST(ScontrolRecord, DamagedTextIsReadAsFarAsItGoes) {
  const unsigned seed = 20260709;
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const std::string whole =
      recorded_output("qos_gpus/scontrol_job.txt") + recorded_output("qos_gpus/scontrol_node.txt");
  for (int round = 0; round < 300; ++round) {
    std::string text = whole;
    for (int edit = 0; edit < 20; ++edit) {
      const std::size_t at = random() % text.size();
      if (edit % 2 == 0) {
        text.erase(at, random() % 30);
      } else {
        text[at] = " =\n(,|a"[random() % 7];
      }
    }
    for (const ScontrolRecord& record : parse_scontrol_records(text)) {
      ASSERT_FALSE(record.fields.empty());
      for (const auto& [key, value] : record.fields) {
        EXPECT_NE(text.find(key + "="), std::string::npos) << key;
        EXPECT_NE(text.find(value), std::string::npos) << value;
        EXPECT_EQ(value.find('\n'), std::string::npos);
      }
    }
    parse_scontrol_config(text);
  }
}

}  // namespace
}  // namespace muster::slurm
