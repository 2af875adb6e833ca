// Site profiles out of recorded outputs: what is certain becomes a key, and every text can be read back.
#include "slurm/site_detection.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "launcher/site_profile.h"
#include "slurm/site_facts.h"
#include "tests/unit/recorded_output.h"

namespace muster::slurm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::recorded_output;
using ::testing::SizeIs;

SiteOutputs with_qos() {
  SiteOutputs outputs;
  outputs.user = "root";
  outputs.config.text = recorded_output("qos_gpus/scontrol_config.txt");
  outputs.partitions.text = recorded_output("qos_gpus/scontrol_partition.txt");
  outputs.nodes.text = recorded_output("qos_gpus/scontrol_node.txt");
  outputs.sinfo.text = recorded_output("qos_gpus/sinfo.txt");
  outputs.qos.text = recorded_output("qos_gpus/sacctmgr_qos.txt");
  outputs.associations.text = recorded_output("qos_gpus/sacctmgr_assoc.txt");
  outputs.mpi.text = recorded_output("qos_gpus/srun_mpi_list.txt");
  return outputs;
}

SiteOutputs with_partitions() {
  const std::string complaint =
      "`sacctmgr -P show qos` said: " + recorded_output("partitions/sacctmgr_stderr.txt");
  SiteOutputs outputs;
  outputs.user = "root";
  outputs.config.text = recorded_output("partitions/scontrol_config.txt");
  outputs.partitions.text = recorded_output("partitions/scontrol_partition.txt");
  outputs.nodes.text = recorded_output("partitions/scontrol_node.txt");
  outputs.sinfo.text = recorded_output("partitions/sinfo.txt");
  outputs.qos.failure = complaint;
  outputs.associations.failure = complaint;
  outputs.mpi.text = recorded_output("partitions/srun_mpi_list.txt");
  return outputs;
}

SiteProfile read_back(const DetectedSite& site) {
  auto profile = parse_site_profile({{"site.yaml", site.yaml}});
  EXPECT_TRUE(profile) << profile.error().message << "\n" << site.yaml;
  return profile ? *std::move(profile) : SiteProfile{};
}

TEST(SiteDetection, QosPreemptionWithGpus) {
  const DetectedSite site = detect_site(with_qos());
  EXPECT_THAT(site.unknown, IsEmpty());
  const SiteProfile profile = read_back(site);
  EXPECT_EQ(profile.cluster, "emulated");
  EXPECT_EQ(profile.low.qos, "low");
  EXPECT_EQ(profile.normal.qos, "normal");
  EXPECT_EQ(profile.high.qos, "high");
  EXPECT_EQ(profile.high.partition, "");
  ASSERT_THAT(profile.gpus, SizeIs(1));
  EXPECT_EQ(profile.gpus.at("a100").gres_type, "a100");
  EXPECT_THAT(site.yaml, HasSubstr("a100:  # 8 on 4 nodes, 2 each\n"));
  EXPECT_EQ(profile.process_start, ProcessStart::kSrunPmix);
  EXPECT_EQ(profile.limits.default_time, hours(4));
  EXPECT_EQ(profile.limits.max_time, milliseconds(hours(48)));
  EXPECT_EQ(profile.limits.max_nodes, 3);
  EXPECT_EQ(profile.preemption.type, "preempt/qos");
  EXPECT_EQ(profile.preemption.mode, "REQUEUE");
  EXPECT_EQ(profile.preemption.grace, milliseconds(seconds(15)));
  EXPECT_EQ(profile.requeue_hold, milliseconds(seconds(120)));
  EXPECT_EQ(profile.job_requeue, true);
  EXPECT_EQ(profile.accounting, true);
  EXPECT_THAT(site.yaml, HasSubstr("# Accounts of root: research, root."));
  EXPECT_THAT(site.yaml, HasSubstr("debug 30m"));
}

TEST(SiteDetection, PartitionPreemptionWithoutAccounting) {
  const DetectedSite site = detect_site(with_partitions());
  EXPECT_THAT(site.unknown, IsEmpty());  // no accounting, so nothing to ask it
  const SiteProfile profile = read_back(site);
  EXPECT_EQ(profile.low.partition, "low");
  EXPECT_EQ(profile.high.partition, "high");
  EXPECT_EQ(profile.high.qos, "");
  EXPECT_EQ(profile.preemption.type, "preempt/partition_prio");
  EXPECT_EQ(profile.preemption.grace, milliseconds(seconds(15)));
  EXPECT_EQ(profile.requeue_hold, milliseconds(seconds(30)));
  EXPECT_EQ(profile.job_requeue, false);
  EXPECT_EQ(profile.accounting, false);
  EXPECT_FALSE(profile.limits.max_time);
  EXPECT_THAT(site.yaml, HasSubstr("# No node has GPUs."));
}

TEST(SiteDetection, SaysWhatItCouldNotFindOutAndWhy) {
  SiteOutputs outputs = with_qos();
  outputs.qos.failure = "`sacctmgr -P show qos` gave no answer: no end within 20s";
  outputs.nodes.failure = "not permitted\nsecond line";
  outputs.mpi.failure = "there is no program srun";
  const DetectedSite site = detect_site(outputs);
  read_back(site);
  EXPECT_THAT(
      site.unknown,
      ElementsAre("how many GPUs there are exactly (nodes of several partitions are counted several times), "
                  "because not permitted",
                  "QOS, their priorities and grace, because `sacctmgr -P show qos` gave no answer: no end "
                  "within 20s",
                  "how MPI programs are started (srun's MPI plugins), because there is no program srun"));
  EXPECT_THAT(site.yaml, HasSubstr("# Could not find out:\n#   how many GPUs"));
  EXPECT_THAT(site.yaml, Not(HasSubstr("second line")));
  EXPECT_THAT(site.yaml, HasSubstr("# accounting: true"));
}

TEST(SiteDetection, WithoutAnyAnswerThereAreOnlyComments) {
  SiteOutputs outputs;
  for (const SiteCommand& command : site_commands("ada"))
    (outputs.*command.output).failure = "nobody answers";
  outputs.user = "ada";
  const DetectedSite site = detect_site(outputs);
  EXPECT_THAT(site.unknown, SizeIs(6));
  const SiteProfile profile = read_back(site);
  for (const auto& [key, origin] : profile.origins) EXPECT_THAT(key, ::testing::StartsWith("limits")) << key;
}

TEST(SiteDetection, SinfoHelpsWhereScontrolMayNot) {
  SiteOutputs outputs = with_qos();
  outputs.partitions.failure = "not permitted";
  const SiteProfile profile = read_back(detect_site(outputs));
  EXPECT_EQ(profile.limits.max_time, milliseconds(hours(48)));
  EXPECT_FALSE(profile.limits.max_nodes);
}

TEST(SiteDetection, CredExpireIsFoundAmongOtherThings) {
  SiteOutputs outputs = with_qos();
  const std::string auth = "AuthInfo                = cred_expire=120";
  const std::size_t at = outputs.config.text.find(auth);
  ASSERT_NE(at, std::string::npos);
  std::string text = outputs.config.text;
  outputs.config.text.replace(at, auth.size(), "AuthInfo = socket=/run/munge,cred_expire=7,ttl=9");
  EXPECT_EQ(read_back(detect_site(outputs)).requeue_hold, milliseconds(seconds(7)));
  outputs.config.text = text.replace(at, auth.size(), "AuthInfo = (null)");
  const DetectedSite site = detect_site(outputs);
  EXPECT_EQ(read_back(site).requeue_hold, milliseconds(seconds(120)));
  EXPECT_THAT(site.yaml, HasSubstr("AuthInfo has no cred_expire"));
}

// The one that preempts may be another's.
TEST(SiteDetection, OnlyQosThatTheUserMayUseAreOffered) {
  SiteOutputs outputs = with_qos();
  outputs.associations.text =
      "Cluster|Account|User|QOS|Def "
      "QOS|X\nemulated|research|root|low,normal|normal|\nother|x|root|high|high|\n";
  const DetectedSite site = detect_site(outputs);
  const SiteProfile profile = read_back(site);
  EXPECT_EQ(profile.low.qos, "low");
  EXPECT_EQ(profile.normal.qos, "normal");
  EXPECT_EQ(profile.high.qos, "");
  EXPECT_EQ(profile.preemption.grace, milliseconds(seconds(15)));
  EXPECT_THAT(site.yaml, HasSubstr("# high: {qos: NAME}  # none lies there"));
}

TEST(SiteDetection, DifferingGracesGiveTheLeastAndAllAreShown) {
  SiteOutputs outputs = with_qos();
  const std::string line = "low|100|00:00:15|";
  outputs.qos.text.replace(outputs.qos.text.find(line), line.size(), "low|100|00:02:00|");
  const DetectedSite site = detect_site(outputs);
  EXPECT_EQ(read_back(site).preemption.grace, milliseconds(seconds(15)));
  EXPECT_THAT(site.yaml, HasSubstr("grace: 15s  # GraceTime: normal 15s, low 2m\n"));
}

TEST(SiteDetection, NamesThatNoProfileTakesBecomeComments) {
  SiteOutputs outputs = with_qos();
  outputs.config.text = "ClusterName = a b\"c\nPreemptType = preempt/own\nPreemptMode = REQUEUE\n";
  outputs.nodes.text = "NodeName=n1 Gres=gpu:a100:1,gpu:A100:1,gpu:4\nNodeName=n2 Gres=gpu:8 \n";
  const DetectedSite site = detect_site(outputs);
  const SiteProfile profile = read_back(site);
  EXPECT_EQ(profile.cluster, "");
  EXPECT_EQ(profile.preemption.type, "");
  EXPECT_THAT(profile.gpus, IsEmpty());
  EXPECT_THAT(site.yaml, HasSubstr("# cluster: \"a b\\\"c\"\n"));
  EXPECT_THAT(site.yaml, HasSubstr("# GPUs without a type: 12 on 2 nodes, 4 to 8 each;"));
}

TEST(SiteDetection, OlderWordsOfSrun) {
  SiteOutputs outputs = with_qos();
  outputs.mpi.text = "srun: MPI types are...\nsrun: none\nsrun: pmi2\nsrun: cray_shasta\n";
  const DetectedSite site = detect_site(outputs);
  EXPECT_EQ(read_back(site).process_start, ProcessStart::kMpirun);
  EXPECT_THAT(site.yaml, HasSubstr("# srun+pmi2 works with"));
  outputs.mpi.text = "srun: MPI types are...\nsrun: pmix_v3\nsrun: openmpi\n";
  EXPECT_EQ(read_back(detect_site(outputs)).process_start, ProcessStart::kSrunPmix);
}

TEST(SiteDetection, PrioritiesAreGuessedOnlyWhereTheyCannotBeOtherwise) {
  const auto shown = [](const std::vector<ClassCandidate>& candidates) -> std::string {
    const auto guess = guess_priorities(candidates);
    return guess ? fmt::format("{}<{}<{}", guess->low, guess->normal, guess->high) : "?";
  };
  EXPECT_EQ(shown({}), "?");
  EXPECT_EQ(shown({{"only", 1, true}}), "?");
  EXPECT_EQ(shown({{"c", 9, false}, {"a", 1, false}, {"b", 5, true}}), "a<b<c");
  EXPECT_EQ(shown({{"a", 1, true}, {"b", 5, false}, {"c", 9, false}}), "?");  // the default is the lowest
  EXPECT_EQ(shown({{"a", 1, false}, {"b", 1, false}, {"c", 9, false}}), "?");
  EXPECT_EQ(shown({{"a", 1, false}, {"b", 2, true}, {"c", 3, false}, {"d", 4, false}}), "?");
  EXPECT_EQ(shown({{"low", 1, false}, {"normal", 2, true}, {"high", 3, false}, {"d", 3, false}}),
            "low<normal<high");
  EXPECT_EQ(shown({{"low", 3, false}, {"normal", 2, true}, {"high", 1, false}}), "high<normal<low");
  EXPECT_EQ(shown({{"a", 1, true}, {"b", 2, false}}), "<a<b");
  EXPECT_EQ(shown({{"a", 1, false}, {"b", 2, true}}), "a<b<");
  EXPECT_EQ(shown({{"a", 1, false}, {"b", 2, false}}), "?");
}

// Whatever the commands print, the text is a site profile.
TEST(SiteDetection, EveryTextIsAProfile) {
  const unsigned seed = 20260713;
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  constexpr std::string_view kBytes = "|,= \n\t(:\"\\{}[]#&*!%~-0a\x01\x80";
  for (int round = 0; round < 150; ++round) {
    SiteOutputs outputs = round % 2 == 0 ? with_qos() : with_partitions();
    if (random() % 3 == 0) outputs.user = "a\nb: \x02";
    for (const SiteCommand& command : site_commands("root")) {
      RecordedOutput& output = outputs.*command.output;
      if (random() % 8 == 0) output.failure = "x\ny: z";
      for (auto edit = random() % 30; edit > 0 && !output.text.empty(); --edit) {
        const std::size_t at = random() % output.text.size();
        if (random() % 3 == 0) {
          output.text.erase(at, random() % 60);
        } else {
          output.text[at] = kBytes[random() % kBytes.size()];
        }
      }
    }
    read_back(detect_site(outputs));
  }
}

}  // namespace
}  // namespace muster::slurm
