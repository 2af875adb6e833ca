// Site profiles: every key, precedence of files, places of values, and what is said about mistakes.
#include "launcher/site_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kWhole = R"(cluster: emulated
priority:
  low: {qos: scavenger, partition: "preempt,batch", nice: 100}
  normal: {account: research}
  high: {qos: urgent}
gpus:
  a100:
    type: nvidia_a100_80gb
    aliases: [A100-80, "NVIDIA A100"]
  h100:
    aliases: hopper
container: {runtime: pyxis}
process_start: mpirun
network: {interface: ib0}
environment:
  NCCL_IB_HCA: mlx5_0
  LICENCE_TOKEN: abc
  OTHER: {secret: x}
polling_interval: 30s
sbatch_options: [--licenses=a, "--reservation=big one", --exclusive]
limits: {default_time: 2h, max_time: 2-00:00:00, max_nodes: 16}
preemption: {type: preempt/qos, mode: "suspend,GANG", grace: 2m}
requeue_hold: 120s
job_requeue: true
accounting: false
)";

Result<SiteProfile> parsed(const std::string& text) { return parse_site_profile({{"site.yaml", text}}); }
std::string error_of(const std::string& text) {
  const auto profile = parsed(text);
  return profile ? "no error" : profile.error().message;
}

TEST(SiteProfile, ReadsEveryKey) {
  const auto profile = parsed(kWhole);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->cluster, "emulated");
  EXPECT_EQ(profile->low.qos, "scavenger");
  EXPECT_EQ(profile->low.partition, "preempt,batch");
  EXPECT_EQ(profile->low.nice, 100);
  EXPECT_EQ(profile->priority(Priority::kNormal).account, "research");
  EXPECT_EQ(profile->priority(Priority::kHigh).qos, "urgent");
  EXPECT_EQ(profile->priority(Priority::kLow).qos, "scavenger");
  EXPECT_EQ(profile->container, ContainerRuntime::kPyxis);
  EXPECT_EQ(profile->process_start, ProcessStart::kMpirun);
  EXPECT_EQ(profile->network_interface, "ib0");
  EXPECT_THAT(profile->environment, ElementsAre(EnvironmentVariable{"NCCL_IB_HCA", "mlx5_0", false},
                                                EnvironmentVariable{"LICENCE_TOKEN", "abc", true},
                                                EnvironmentVariable{"OTHER", "x", true}));
  EXPECT_EQ(profile->polling_interval, seconds(30));
  EXPECT_THAT(profile->sbatch_options, ElementsAre("--licenses=a", "--reservation=big one", "--exclusive"));
  EXPECT_EQ(profile->limits.default_time, hours(2));
  EXPECT_EQ(profile->limits.max_time, milliseconds(hours(48)));
  EXPECT_EQ(profile->limits.max_nodes, 16);
  EXPECT_EQ(profile->preemption.type, "preempt/qos");
  EXPECT_EQ(profile->preemption.mode, "SUSPEND,GANG");
  EXPECT_EQ(profile->preemption.grace, milliseconds(minutes(2)));
  EXPECT_EQ(profile->requeue_hold, milliseconds(seconds(120)));
  EXPECT_EQ(profile->job_requeue, true);
  EXPECT_EQ(profile->accounting, false);
}

TEST(SiteProfile, GpusAreFoundByNameAndAliasInAnyCase) {
  const auto profile = parsed(kWhole);
  ASSERT_TRUE(profile);
  for (const char* name : {"a100", "A100", "a100-80", "nvidia a100"}) {
    const GpuType* gpu = profile->find_gpu(name);
    ASSERT_NE(gpu, nullptr) << name;
    EXPECT_EQ(gpu->gres_type, "nvidia_a100_80gb");
  }
  ASSERT_NE(profile->find_gpu("Hopper"), nullptr);
  EXPECT_EQ(profile->find_gpu("Hopper")->gres_type, "h100");  // a type that is not given is the name
  EXPECT_EQ(profile->find_gpu("v100"), nullptr);
}

TEST(SiteProfile, NothingGivesDefaults) {
  for (const auto& files : {std::vector<SiteFile>{},
                            {{"site.yaml", ""}},
                            {{"site.yaml", "# nothing\npriority:\n  # qos: a\n"}}}) {
    const auto profile = parse_site_profile(files);
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(profile->high.qos, "");
    EXPECT_EQ(profile->limits.default_time, hours(1));
    EXPECT_FALSE(profile->limits.max_time);
    EXPECT_FALSE(profile->requeue_hold);
    EXPECT_FALSE(profile->accounting);
    EXPECT_EQ(profile->polling_interval, seconds(10));
  }
}

TEST(SiteProfile, LaterFilesReplaceSingleKeys) {
  const auto profile = parse_site_profile(
      {{"/etc/site", kWhole},
       {"mine",
        "priority:\n  low: {partition: \"\"}\nenvironment: {OTHER: y}\nsbatch_options: []\n"
        "gpus: {a100: {aliases: []}}\nlimits: {max_time: unlimited}\n"}});
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->low.partition, "");
  EXPECT_EQ(profile->low.qos, "scavenger");
  EXPECT_EQ(profile->environment.size(), 3U);
  EXPECT_EQ(profile->environment[2], (EnvironmentVariable{"OTHER", "y", false}));
  EXPECT_TRUE(profile->sbatch_options.empty());
  EXPECT_TRUE(profile->gpus.at("a100").aliases.empty());
  EXPECT_EQ(profile->gpus.at("a100").gres_type, "nvidia_a100_80gb");
  EXPECT_FALSE(profile->limits.max_time);
  EXPECT_EQ(profile->origins.at("priority.low.qos").file, "/etc/site");
  EXPECT_EQ(profile->origins.at("priority.low.qos").position, (SourcePosition{3, 9}));
  EXPECT_EQ(profile->origins.at("priority.low.partition").file, "mine");
  EXPECT_EQ(profile->origins.at("environment.OTHER").position, (SourcePosition{3, 15}));
}

TEST(SiteProfile, AShorterMaximumShortensTheDefaultThatNobodyGave) {
  const auto profile = parsed("limits: {max_time: 30m}\n");
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->limits.default_time, minutes(30));
}

TEST(SiteProfile, SaysAllThatIsWrongAtOnce) {
  EXPECT_EQ(
      error_of("priorty: {}\n"
               "priority: {low: {qos: [a]}, hihg: {}}\n"
               "polling_interval: 0s\n"
               "limits: {max_nodes: none}\n"
               "preemption: {type: qos, mode: NICE}\n"),
      "site.yaml:1:1: unknown key 'priorty'; did you mean 'priority'? allowed here: accounting, cluster, "
      "container, environment, gpus, job_requeue, limits, network, polling_interval, preemption, "
      "priority, process_start, requeue_hold, sbatch_options\n"
      "site.yaml:2:23: priority.low.qos: found a list; allowed: a name of letters, digits and any of "
      "_-.+:@/, or \"\" for the site's default\n"
      "site.yaml:2:29: unknown key 'priority.hihg'; did you mean 'high'? allowed here: high, low, normal\n"
      "site.yaml:3:19: polling_interval: found '0s'; allowed: a duration with a unit, from 1s to 1h, such "
      "as 90s, 30m, 2h, 1h30m, 500ms, or Slurm's 30:00, 1:30:00, 1-12:30:00\n"
      "site.yaml:4:21: limits.max_nodes: found 'none'; allowed: a whole number from 1 to 65536\n"
      "site.yaml:5:20: preemption.type: found 'qos'; allowed: preempt/none, preempt/partition_prio, "
      "preempt/qos\n"
      "site.yaml:5:31: preemption.mode: found 'NICE'; allowed: OFF, CANCEL, GANG, REQUEUE, SUSPEND, "
      "WITHIN, or several, as in GANG,SUSPEND");
}

TEST(SiteProfile, ErrorsOfAllFilesAreTold) {
  const auto profile =
      parse_site_profile({{"a", "accounting: 1\n"}, {"b", "cluster: x\n"}, {"c", "- list\n"}});
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(profile.error().message,
            "a:1:13: accounting: found '1'; allowed: true or false\n"
            "c:1:1: found a list; allowed: keys and values");
}

TEST(SiteProfile, AnAliasStandsForOneGpu) {
  EXPECT_EQ(error_of("gpus:\n  a100: {aliases: [big]}\n  h100: {aliases: [BIG]}\n"),
            "site.yaml:3:20: gpus.h100.aliases: found 'BIG', which gpus.a100.aliases has given at "
            "site.yaml:2:20; allowed: each name once, in upper or lower case");
  EXPECT_THAT(error_of("gpus:\n  a100: {aliases: [h100]}\n  h100: {}\n"),
              HasSubstr("site.yaml:2:20: gpus.a100.aliases: found 'h100', which gpus.h100 has given"));
  EXPECT_THAT(error_of("gpus:\n  a100: {aliases: [x, x]}\n"), HasSubstr("site.yaml:2:23: "));
  EXPECT_THAT(error_of("gpus: {a100: {}, A100: {}}\n"), HasSubstr("site.yaml:1:18: gpus.A100: found 'A100'"));
  const auto two = parse_site_profile(
      {{"a", "gpus: {a100: {aliases: [big]}}\n"}, {"b", "gpus: {h100: {aliases: [big]}}\n"}});
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message, HasSubstr("b:1:25: gpus.h100.aliases: found 'big', which "
                                             "gpus.a100.aliases has given at a:1:25"));
}

TEST(SiteProfile, AMaximumBelowTheDefaultIsRefusedWhereItIsGiven) {
  const auto two =
      parse_site_profile({{"a", "limits: {default_time: 2h}\n"}, {"b", "limits: {max_time: 1h}\n"}});
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().message,
            "b:1:10: limits.default_time: found 2h; allowed: at most limits.max_time, which is 1h");
}

TEST(SiteProfile, OptionsThatMusterSetsAreRefusedAbbreviatedOrNot) {
  for (const char* option : {"--nodes=4", "--signal=USR1@60", "--requeue", "--output=x", "--outp=x", "--nod",
                             "--q=high", "--comment=a", "--gres=gpu:1", "--wrap=x", "--error=a"}) {
    EXPECT_THAT(error_of(std::string("sbatch_options: ['") + option + "']\n"),
                HasSubstr("is for muster to decide"))
        << option;
  }
  for (const char* option :
       {"-N4", "licenses=a", "--licenses a", "--", "-", "--Licenses=a", "--licenses=a\\n"}) {
    EXPECT_THAT(error_of(std::string("sbatch_options: [\"") + option + "\"]\n"),
                HasSubstr("no long option in one text"))
        << option;
  }
  EXPECT_EQ(
      error_of("sbatch_options: [--qos=high]\n"),
      "site.yaml:1:18: sbatch_options: found '--qos=high': --qos is for muster to decide (from priority "
      "here); allowed: a list of other long options of sbatch, each as in --licenses=a");
}

TEST(SiteProfile, NamesThatAShellOrSlurmWouldReadOtherwiseAreRefused) {
  for (const char* name : {"a b", "$(x)", "-x", "a;b", "'", "é"}) {
    EXPECT_THAT(error_of(std::string("cluster: \"") + name + "\"\n"),
                HasSubstr("site.yaml:1:10: cluster: found"))
        << name;
  }
  EXPECT_THAT(error_of("gpus: {\"a:b\": {}}\n"), HasSubstr("a name that is none of a GPU"));
  EXPECT_THAT(error_of("environment: {RANK: 1}\n"),
              HasSubstr("environment.RANK: found a variable that muster"));
}

// Whatever is cut out of a good file, the reader ends with a profile or with errors that have a place.
TEST(SiteProfile, CutFilesAreReadOrRefused) {
  const std::string whole = kWhole;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const std::size_t length : {std::size_t{1}, std::size_t{7}, whole.size()}) {
      std::string text = whole;
      text.erase(at, length);
      const auto profile = parsed(text);
      if (!profile) {
        EXPECT_THAT(profile.error().message, ::testing::StartsWith("site.yaml:")) << text;
      }
    }
  }
}

// ---- the three files --------------------------------------------------------------------------------------

class SiteFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"XDG_CONFIG_HOME", "HOME", "MUSTER_SITE"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
      ::unsetenv(name);
    }
    if (fs::exists("/etc/muster/site.yaml")) GTEST_SKIP() << "this machine has a site profile";
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      ::unsetenv(name);
      if (value) ::setenv(name, value->c_str(), 1);
    }
  }
  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = directory_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

  testing::TemporaryDirectory directory_;
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST_F(SiteFiles, FilesThatAreNotThereArePassedOver) {
  EXPECT_TRUE(find_site_files().value().empty());
  set("HOME", directory_.path().string());
  set("MUSTER_SITE", "");
  EXPECT_TRUE(find_site_files().value().empty());
}

TEST_F(SiteFiles, TheNamedFileWinsOverTheUsers) {
  const std::string user = write(".config/muster/site.yaml", "cluster: mine\naccounting: true\n");
  const std::string named = write("named.yaml", "cluster: named\n");
  set("HOME", directory_.path().string());
  set("XDG_CONFIG_HOME", "relative");
  EXPECT_EQ(load_site_profile().value().cluster, "mine");
  set("MUSTER_SITE", named);
  const auto profile = load_site_profile();
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->cluster, "named");
  EXPECT_EQ(profile->origins.at("cluster").file, named);
  EXPECT_EQ(profile->origins.at("accounting").file, user);
  set("XDG_CONFIG_HOME", (directory_.path() / "elsewhere").string());
  EXPECT_EQ(find_site_files().value().size(), 1U);
  set("XDG_CONFIG_HOME", (directory_.path() / ".config").string());
  set("MUSTER_SITE", user);
  EXPECT_EQ(find_site_files().value().size(), 1U);  // once, not twice
}

TEST_F(SiteFiles, ANamedFileMustBeThere) {
  set("MUSTER_SITE", (directory_.path() / "none.yaml").string());
  const auto files = find_site_files();
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(files.error().message, HasSubstr("none.yaml"));
  EXPECT_THAT(files.error().message, HasSubstr("$MUSTER_SITE"));
}

TEST_F(SiteFiles, AFileThatCannotBeReadIsAnError) {
  fs::create_directories(directory_.path() / ".config/muster/site.yaml");
  set("HOME", directory_.path().string());
  const auto files = find_site_files();
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace muster
