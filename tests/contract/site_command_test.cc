// `muster site` as an administrator meets it: what it shows, what it refuses, and exit codes. Slurm's
// commands are scripts that print what a real Slurm once did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/file_ops.h"
#include "common/run_contract.h"
#include "tests/support/subprocess.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::ProgramResult;
using ::testing::StartsWith;

class SiteCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fs::exists("/etc/muster/site.yaml")) GTEST_SKIP() << "this machine has a site profile";
    fs::create_directory(bin());
  }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = directory_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  // Slurm's command, as a script.
  void install(const std::string& name, const std::string& script) const {
    const std::string path = write("bin/" + name, "#!/bin/sh\n" + script + "\n");
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  }
  void install_slurm() const {
    const std::string recorded = std::string(MUSTER_SOURCE_DIR) + "/tests/unit/slurm_22_05/qos_gpus/";
    install("scontrol", "exec cat " + recorded + "scontrol_$2.txt");
    install("sinfo", "exec cat " + recorded + "sinfo.txt");
    install("sacctmgr", "exec cat " + recorded + "sacctmgr_$3.txt");
    install("srun", "exec cat " + recorded + "srun_mpi_list.txt >&2");
  }

  ProgramResult site(const std::vector<std::string>& words, const std::string& named_file = "") const {
    testing::ProgramOptions options;
    options.set = {{"XDG_CONFIG_HOME", (directory_.path() / "config").string()},
                   {"MUSTER_SITE", named_file},
                   {"PATH", bin().string() + ":/usr/bin:/bin"}};
    std::vector<std::string> command{testing::built_program("muster"), "site"};
    command.insert(command.end(), words.begin(), words.end());
    return testing::run_program(command, options);
  }
  fs::path bin() const { return directory_.path() / "bin"; }

  testing::TemporaryDirectory directory_;
};

TEST_F(SiteCommand, ShowsValuesAndWhereTheyComeFrom) {
  const std::string user =
      write("config/muster/site.yaml", "priority:\n  high: {qos: urgent}\naccounting: true\n");
  const std::string named = write("mine.yaml", "accounting: false\nenvironment: {A_TOKEN: tip-top}\n");
  const ProgramResult text = site({"show"}, named);
  EXPECT_EQ(text.exit_code, contract::kMusterOk) << text;
  EXPECT_THAT(text.out, StartsWith("from " + user + ", then " + named + "\n"));
  EXPECT_THAT(text.out, ContainsRegex("priority.high.qos +urgent +" + user + ":2:10\n"));
  EXPECT_THAT(text.out, ContainsRegex("accounting +false +" + named + ":1:1\n"));
  EXPECT_THAT(text.out, ContainsRegex("limits.default_time +1h +default\n"));
  EXPECT_THAT(text.out, ContainsRegex("environment.A_TOKEN +\\*\\*\\* "));
  const ProgramResult json = site({"show", "--json"}, named);
  EXPECT_EQ(json.exit_code, contract::kMusterOk) << json;
  EXPECT_THAT(text.out + json.out, Not(HasSubstr("tip-top")));
  const auto shown = nlohmann::json::parse(json.out, nullptr, false);
  ASSERT_TRUE(shown.is_object()) << json;
  EXPECT_EQ(shown["files"], (nlohmann::json{user, named}));
  EXPECT_EQ(shown["settings"]["accounting"],
            (nlohmann::json{{"value", false}, {"file", named}, {"line", 1}, {"column", 1}}));
  EXPECT_EQ(shown["settings"]["limits.default_time"], (nlohmann::json{{"value", 3'600'000}}));
  EXPECT_EQ(shown["settings"]["limits.max_time"], (nlohmann::json{{"value", nullptr}}));
}

TEST_F(SiteCommand, WithoutFilesAllIsDefault) {
  const ProgramResult shown = site({"show"});
  EXPECT_EQ(shown.exit_code, contract::kMusterOk) << shown;
  EXPECT_THAT(shown.out, StartsWith("no site profile; all is default"));
}

TEST_F(SiteCommand, ErrorsNameFileLineAndColumn) {
  const std::string user = write("config/muster/site.yaml", "acounting: true\n");
  const std::string named = write("mine.yaml", "limits: {max_nodes: 0}\n");
  const ProgramResult shown = site({"show"}, named);
  EXPECT_EQ(shown.exit_code, contract::kMusterBadTaskFile);
  EXPECT_EQ(shown.out, "");
  EXPECT_THAT(shown.err,
              HasSubstr("muster: " + user + ":1:1: unknown key 'acounting'; did you mean 'accounting'?"));
  EXPECT_THAT(shown.err,
              HasSubstr("\nmuster: " + named + ":1:21: limits.max_nodes: found '0'; allowed: a whole"));
}

TEST_F(SiteCommand, ExitCodesTellWhatWentWrong) {
  EXPECT_EQ(site({"show"}, "/nowhere/site.yaml").exit_code, contract::kMusterNotFound);
  EXPECT_EQ(site({"show"}, directory_.path().string()).exit_code, contract::kMusterIo);
  EXPECT_EQ(site({}).exit_code, contract::kMusterUsage);
  EXPECT_EQ(site({"paint"}).exit_code, contract::kMusterUsage);
  EXPECT_EQ(site({"show", "it"}).exit_code, contract::kMusterUsage);
  EXPECT_EQ(site({"show", "--xml"}).exit_code, contract::kMusterUsage);
  EXPECT_EQ(site({"detect", "--timeout", "5"}).exit_code, contract::kMusterUsage);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help"}, {"show", "--help"}, {"detect", "-h"}}) {
    const ProgramResult help = site(words);
    EXPECT_EQ(help.exit_code, contract::kMusterOk) << help;
    EXPECT_THAT(help.out, StartsWith("usage: muster site"));
  }
}

TEST_F(SiteCommand, DetectPrintsAProfileThatShowAccepts) {
  install_slurm();
  const ProgramResult detected = site({"detect"});
  EXPECT_EQ(detected.exit_code, contract::kMusterOk) << detected;
  EXPECT_EQ(detected.err, "");
  const ProgramResult shown = site({"show"}, write("site.yaml", detected.out));
  EXPECT_EQ(shown.exit_code, contract::kMusterOk) << shown;
  EXPECT_THAT(shown.out, ContainsRegex("priority.high.qos +high "));
  EXPECT_THAT(shown.out, ContainsRegex("gpus.a100.type +a100 "));
}

TEST_F(SiteCommand, DetectWritesAFileOnce) {
  install_slurm();
  const std::string file = (directory_.path() / "new.yaml").string();
  const ProgramResult first = site({"detect", "--output", file});
  EXPECT_EQ(first.exit_code, contract::kMusterOk) << first;
  EXPECT_EQ(first.out, "wrote " + file + "\n");
  EXPECT_THAT(read_text_file(file).value(), HasSubstr("cluster: emulated"));
  std::ofstream(file) << "cluster: mine\n";
  const ProgramResult second = site({"detect", "--output", file});
  EXPECT_EQ(second.exit_code, contract::kMusterUsage);
  EXPECT_EQ(second.err, "muster: " + file + " is there already; --force replaces it\n");
  EXPECT_EQ(read_text_file(file).value(), "cluster: mine\n");
  EXPECT_EQ(site({"detect", "--output", file, "--force"}).exit_code, contract::kMusterOk);
  EXPECT_THAT(read_text_file(file).value(), HasSubstr("cluster: emulated"));
  EXPECT_EQ(site({"detect", "--output", "/nowhere/x.yaml"}).exit_code, contract::kMusterNotFound);
}

TEST_F(SiteCommand, DetectSaysWhichQuestionsFoundNoAnswer) {
  install_slurm();
  install("sacctmgr",
          "echo 'sacctmgr: error: Problem talking to the database: Connection refused' >&2; exit 1");
  install("srun", "sleep 100 & exec sleep 100");
  const ProgramResult detected = site({"detect", "--timeout", "500ms"});
  EXPECT_EQ(detected.exit_code, contract::kMusterOk) << detected;
  EXPECT_THAT(detected.err, HasSubstr("muster: could not find out: QOS, their priorities and grace, because "
                                      "`sacctmgr -P show qos` said: sacctmgr: error: Problem talking to the "
                                      "database: Connection refused\n"));
  EXPECT_THAT(detected.err,
              HasSubstr("(srun's MPI plugins), because `srun --mpi=list`: no end within 500ms\n"));
  EXPECT_THAT(detected.out, HasSubstr("# Could not find out:\n#   QOS"));
  EXPECT_EQ(site({"show"}, write("site.yaml", detected.out)).exit_code, contract::kMusterOk);
}

TEST_F(SiteCommand, DetectWithoutSlurmIsUnavailable) {
  for (const char* name : {"scontrol", "sinfo", "sacctmgr", "srun"}) install(name, "echo no >&2; exit 1");
  const ProgramResult detected = site({"detect"});
  EXPECT_EQ(detected.exit_code, contract::kMusterUnavailable);
  EXPECT_THAT(detected.out, IsEmpty());
  EXPECT_EQ(detected.err, "muster: no Slurm answers here: `scontrol show config` said: no\n");
}

}  // namespace
}  // namespace muster
