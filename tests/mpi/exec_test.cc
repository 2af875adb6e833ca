// muster exec as ranks meet it: under a real mpirun, under Slurm's variables, and alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "common/run_contract.h"
#include "launcher/event_server.h"
#include "launcher/process_identity.h"
#include "launcher/rank_environment.h"
#include "tests/support/eventually.h"
#include "tests/support/forked_process.h"
#include "tests/support/subprocess.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using testing::eventually;
using testing::ForkedProcess;
using ::testing::HasSubstr;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;
using testing::TemporaryDirectory;

using Words = std::vector<std::string>;

Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Words mpirun(int ranks) {
  return {"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
          "-np",    std::to_string(ranks)};
}

class ExecTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_RUNTIME_DIR", path("runtime").c_str(), 1); }
  ExecTest() { fs::create_directory(path("runtime")); }

  fs::path path(const std::string& name) const { return directory_.path() / name; }
  static Words exec(const Words& options = {}) {
    return Words{testing::built_program("muster"), "exec"} + options + Words{"--"};
  }
  // A command that writes its environment to rank-$RANK.
  Words save_environment() const { return {"sh", "-c", "env -0 > " + path("rank-").string() + "$RANK"}; }

  Environment saved(int rank) const {
    Environment environment;
    std::ifstream in(path("rank-" + std::to_string(rank)), std::ios::binary);
    for (std::string entry; std::getline(in, entry, '\0');) {
      const std::size_t equals = entry.find('=');
      environment[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
    return environment;
  }

  fs::path environment_file(const nlohmann::json& variables) const {
    std::ofstream(path("environment.json")) << nlohmann::json{{"variables", variables}};
    return path("environment.json");
  }

  TemporaryDirectory directory_;
};

TEST_F(ExecTest, EveryRankOfAnMpirunGetsTheContract) {
  for (const int ranks : {1, 2, 3, 4}) {
    SCOPED_TRACE(ranks);
    const ProgramResult result = run_program(mpirun(ranks) + exec() + save_environment());
    ASSERT_EQ(result.exit_code, 0) << result;
    std::set<std::string> ports;
    for (int rank = 0; rank < ranks; ++rank) {
      const Environment environment = saved(rank);
      EXPECT_EQ(environment.at("RANK"), std::to_string(rank));
      EXPECT_EQ(environment.at("WORLD_SIZE"), std::to_string(ranks));
      EXPECT_EQ(environment.at("LOCAL_RANK"), std::to_string(rank));
      EXPECT_EQ(environment.at("LOCAL_WORLD_SIZE"), std::to_string(ranks));
      EXPECT_EQ(environment.at("NODE_RANK"), "0");
      EXPECT_EQ(environment.at("MASTER_ADDR"), "127.0.0.1");
      ports.insert(environment.at("MASTER_PORT"));
    }
    EXPECT_EQ(ports.size(), 1u);
  }
  // Nothing is left of the meetings.
  EXPECT_TRUE(fs::is_empty(path("runtime") / "muster" / "rendezvous"));
}

TEST_F(ExecTest, ValuesComeThroughExactly) {
  const std::string odd = "a,b=c;'d' \"e\"\n\t$f `g` \\ -x x=y,\xC3\xA9 ";
  const fs::path file = environment_file({{"ODD", odd}, {"EMPTY", ""}, {"WITH_EQUALS", "=a=b="}});
  const ProgramResult result =
      run_program(mpirun(2) + exec({"--environment", file.string()}) + save_environment());
  ASSERT_EQ(result.exit_code, 0) << result;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(saved(rank).at("ODD"), odd);
    EXPECT_EQ(saved(rank).at("EMPTY"), "");
    EXPECT_EQ(saved(rank).at("WITH_EQUALS"), "=a=b=");
  }
}

TEST_F(ExecTest, ExitCodesAndSignalsAreTheProgramsOwn) {
  const Words alone = exec({"--standalone"});
  EXPECT_EQ(run_program(alone + Words{"sh", "-c", "exit 3"}).exit_code, 3);
  EXPECT_EQ(run_program(alone + Words{"true"}).exit_code, 0);
  for (const int signal : {SIGKILL, SIGSEGV, SIGTERM}) {
    const Words kill_itself{"sh", "-c", "kill -" + std::to_string(signal) + " $$"};
    EXPECT_EQ(run_program(alone + kill_itself).term_signal, signal);
  }
  EXPECT_EQ(run_program(mpirun(2) + exec() + Words{"sh", "-c", "test $RANK = 0 || exit 3; exec sleep 100"})
                .exit_code,
            3);
  const ProgramResult killed =
      run_program(mpirun(2) + exec() + Words{"sh", "-c", "test $RANK = 0 || kill -KILL $$; exec sleep 100"});
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL) << killed;
  EXPECT_THAT(killed.err + killed.out, HasSubstr("exited on signal 9"));
}

TEST_F(ExecTest, NothingStaysBetweenTheLauncherAndTheProgram) {
  // The shell that starts it is the program's parent.
  const ProgramResult result = run_program(
      {"sh", "-c",
       testing::built_program("muster") + " exec --standalone -- sh -c 'echo $PPID' & echo $$; wait"});
  const std::size_t newline = result.out.find('\n');
  ASSERT_NE(newline, std::string::npos) << result;
  EXPECT_EQ(result.out.substr(0, newline + 1), result.out.substr(newline + 1));
}

TEST_F(ExecTest, ACommandThatCannotBeRunIsExplained) {
  const Words alone = exec({"--standalone"});
  const ProgramResult absent = run_program(alone + Words{"no-such-command"});
  EXPECT_EQ(absent.exit_code, 127);
  EXPECT_THAT(absent.err, HasSubstr("no command 'no-such-command' in PATH="));
  std::ofstream(path("script")) << "echo no interpreter named\n";
  EXPECT_EQ(run_program(alone + Words{path("script").string()}).exit_code, 126);
  fs::permissions(path("script"), fs::perms::owner_all);
  const ProgramResult nameless = run_program(alone + Words{path("script").string()});
  EXPECT_EQ(nameless.exit_code, 126);
  EXPECT_THAT(nameless.err, HasSubstr("lacks a first line like #!/bin/sh"));
  std::ofstream(path("script")) << "#!/bin/sh\nexit 4\n";
  EXPECT_EQ(run_program(alone + Words{path("script").string()}).exit_code, 4);
  EXPECT_EQ(run_program({testing::built_program("muster"), "exec", "--standalone"}).exit_code,
            contract::kMusterUsage);
  const ProgramResult without_dashes =
      run_program({testing::built_program("muster"), "exec", "python3", "x.py"});
  EXPECT_EQ(without_dashes.exit_code, contract::kMusterUsage);
  EXPECT_THAT(without_dashes.err, HasSubstr("write it after --"));
}

TEST_F(ExecTest, SilentSingletonsAreImpossible) {
  const ProgramOptions promised{{{"WORLD_SIZE", "4"}}, {}, std::chrono::seconds(60)};
  const ProgramResult no_launcher = run_program(exec() + Words{"true"}, promised);
  EXPECT_EQ(no_launcher.exit_code, contract::kExitDoNotRetry) << no_launcher;
  EXPECT_EQ(run_program(exec({"--standalone"}) + Words{"true"}, promised).exit_code,
            contract::kExitDoNotRetry);
  const ProgramResult one = run_program(mpirun(1) + exec() + Words{"true"}, promised);
  EXPECT_EQ(one.exit_code, contract::kExitDoNotRetry);
  EXPECT_THAT(one.err, HasSubstr("WORLD_SIZE=4 is set, but Open MPI says 1"));
  const ProgramResult each_alone = run_program(mpirun(2) + exec({"--standalone"}) + Words{"true"});
  EXPECT_EQ(each_alone.exit_code, contract::kExitDoNotRetry);
  EXPECT_EQ(run_program(exec() + Words{"true"}).exit_code, contract::kExitDoNotRetry);
}

TEST_F(ExecTest, MpirunsAtTheSameTimeNeverShareAPort) {
  constexpr int kRuns = 4;
  // All ranks stay until the last writer of a pipe closes it.
  ASSERT_EQ(::mkfifo(path("stay").c_str(), 0600), 0);
  UniqueFd stay(::open(path("stay").c_str(), O_RDWR | O_CLOEXEC));
  const std::string wait_for_all = "exec 3< " + path("stay").string() + "; echo $MASTER_PORT > " +
                                   path("port-").string() + "$RUN-$RANK; read -r line <&3; exit 0";
  std::vector<ForkedProcess> runs;
  for (int run = 0; run < kRuns; ++run) {
    runs.emplace_back([&] {
      testing::become(mpirun(2) + exec() + Words{"sh", "-c", wait_for_all},
                      {{{"RUN", std::to_string(run)}}, {}, {}});
      return 127;
    });
  }
  const auto port = [&](int run, int rank) {
    std::string text;
    std::ifstream(path("port-" + std::to_string(run) + "-" + std::to_string(rank))) >> text;
    return text;
  };
  std::set<std::string> ports;
  for (int run = 0; run < kRuns; ++run) {
    ASSERT_TRUE(eventually([&] { return !port(run, 0).empty() && !port(run, 1).empty(); }));
    EXPECT_EQ(port(run, 0), port(run, 1));
    ports.insert(port(run, 0));
  }
  EXPECT_EQ(ports.size(), static_cast<std::size_t>(kRuns));
  stay.reset();
  for (ForkedProcess& run : runs) EXPECT_EQ(run.wait(), 0);
}

// The tasks of a step, as srun would start them, all on this machine.
class SlurmStep {
 public:
  SlurmStep(std::string tasks_per_node, std::vector<int> node_of_task)
      : tasks_per_node_(std::move(tasks_per_node)), node_of_task_(std::move(node_of_task)) {}

  std::vector<int> run(const Words& command, const Environment& more = {}) const {
    std::vector<ForkedProcess> tasks;
    std::map<int, int> tasks_on_node;
    for (std::size_t task = 0; task < node_of_task_.size(); ++task) {
      const int node = node_of_task_[task];
      ProgramOptions options;
      options.set = {{"SLURM_JOB_ID", "7"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_PROCID", std::to_string(task)},
                     {"SLURM_LOCALID", std::to_string(tasks_on_node[node]++)},
                     {"SLURM_NODEID", std::to_string(node)},
                     {"SLURM_STEP_NUM_TASKS", std::to_string(node_of_task_.size())},
                     {"SLURM_STEP_TASKS_PER_NODE", tasks_per_node_},
                     {"MUSTER_NETWORK_INTERFACE", "lo"}};
      options.set.insert(options.set.end(), more.begin(), more.end());
      tasks.emplace_back([&] {
        testing::become(command, options);
        return 127;
      });
    }
    std::vector<int> exit_codes;
    for (ForkedProcess& task : tasks) {
      const int status = task.wait();
      exit_codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    return exit_codes;
  }

 private:
  std::string tasks_per_node_;
  std::vector<int> node_of_task_;
};

TEST_F(ExecTest, TasksOfASlurmStepOnOneNode) {
  const SlurmStep step("3", {0, 0, 0});
  EXPECT_THAT(step.run(exec() + save_environment()), ::testing::Each(0));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(saved(rank).at("WORLD_SIZE"), "3");
    EXPECT_EQ(saved(rank).at("LOCAL_RANK"), std::to_string(rank));
    EXPECT_EQ(saved(rank).at("MASTER_ADDR"), "127.0.0.1");
    EXPECT_EQ(saved(rank).at("MASTER_PORT"), saved(0).at("MASTER_PORT"));
  }
}

TEST_F(ExecTest, TasksOfASlurmStepOnSeveralNodesNeedASharedDirectory) {
  const SlurmStep step("2(x2),1", {0, 1, 0, 1, 2});  // --distribution=cyclic
  EXPECT_THAT(step.run(exec() + Words{"true"}), ::testing::Each(contract::kExitDoNotRetry));

  EXPECT_THAT(step.run(exec({"--rendezvous-dir", path("shared").string()}) + save_environment()),
              ::testing::Each(0));
  const std::vector<std::array<const char*, 3>> expected{
      {"0", "2", "0"}, {"0", "2", "1"}, {"1", "2", "0"}, {"1", "2", "1"}, {"0", "1", "2"}};
  for (int rank = 0; rank < 5; ++rank) {
    const Environment environment = saved(rank);
    EXPECT_EQ(environment.at("LOCAL_RANK"), expected[static_cast<std::size_t>(rank)][0]);
    EXPECT_EQ(environment.at("LOCAL_WORLD_SIZE"), expected[static_cast<std::size_t>(rank)][1]);
    EXPECT_EQ(environment.at("NODE_RANK"), expected[static_cast<std::size_t>(rank)][2]);
    EXPECT_EQ(environment.at("MASTER_PORT"), saved(0).at("MASTER_PORT"));
  }

  // The user's own choice needs no meeting.
  EXPECT_THAT(step.run(exec() + save_environment(), {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "4711"}}),
              ::testing::Each(0));
  EXPECT_EQ(saved(4).at("MASTER_ADDR"), "node1");
  EXPECT_EQ(saved(4).at("MASTER_PORT"), "4711");
  EXPECT_THAT(step.run(exec() + Words{"true"}, {{"MASTER_ADDR", "node1"}}),
              ::testing::Each(contract::kExitDoNotRetry));
  EXPECT_THAT(step.run(exec() + Words{"true"}, {{"MASTER_ADDR", ""}, {"MASTER_PORT", "4711"}}),
              ::testing::Each(contract::kExitDoNotRetry));
  EXPECT_THAT(step.run(exec() + Words{"true"}, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "http"}}),
              ::testing::Each(contract::kExitDoNotRetry));
}

TEST_F(ExecTest, ARankThatNeverComesEndsTheOthersWithRetry) {
  Words command = exec({"--rendezvous-timeout", "1"}) + Words{"true"};
  const ProgramOptions first_of_two{{{"SLURM_JOB_ID", "8"},
                                     {"SLURM_STEP_ID", "0"},
                                     {"SLURM_PROCID", "0"},
                                     {"SLURM_LOCALID", "0"},
                                     {"SLURM_NODEID", "0"},
                                     {"SLURM_STEP_NUM_TASKS", "2"},
                                     {"SLURM_STEP_TASKS_PER_NODE", "2"}},
                                    {},
                                    std::chrono::seconds(60)};
  const ProgramResult result = run_program(command, first_of_two);
  EXPECT_EQ(result.exit_code, contract::kExitRetry) << result;
  EXPECT_THAT(result.err, HasSubstr("waited in vain for 1 of 2 ranks"));
}

TEST_F(ExecTest, UnderMusterNoRankOutlivesMpirun) {
  const ProgramOptions under_muster{
      {{"MUSTER_RUN_DIR", path("run").string()}, {"MUSTER_ATTEMPT", "1"}, {"MUSTER_RUN_ID", "r"}}, {}, {}};
  ForkedProcess run([&] {
    // Ranks that neither read nor write would not notice by themselves that mpirun is gone.
    testing::become(
        mpirun(3) + exec() +
            Words{"sh", "-c",
                  "echo $$ > " + path("pid-").string() + "$RANK; exec sleep 1000 </dev/null >/dev/null 2>&1"},
        under_muster);
    return 127;
  });
  const auto pid_of = [&](int rank) {
    pid_t pid = 0;
    std::ifstream(path("pid-" + std::to_string(rank))) >> pid;
    return pid;
  };
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(eventually([&] { return pid_of(rank) > 0; }));
  run.send(SIGKILL);
  run.wait();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(eventually([&] { return !process_start_ticks(pid_of(rank)); })) << "rank " << rank;
  }
}

class ExecEventsTest : public ExecTest {
 protected:
  void SetUp() override {
    ExecTest::SetUp();
    fs::create_directory(path("run"));
    std::ofstream(path("run") / contract::kChannelKeyFile) << "secret\n";
    EventServer::Options options;
    options.run_id = "r";
    options.key = "secret";
    auto server = EventServer::listen(options);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    server_->begin_generation(3);
  }

  ProgramOptions under_muster(const std::string& attempt) const {
    return {{{"MUSTER_RUN_DIR", path("run").string()},
             {"MUSTER_RUN_ID", "r"},
             {"MUSTER_ATTEMPT", attempt},
             {"MUSTER_EVENTS", server_->address()}},
            {},
            {}};
  }

  // Serves until `process` ends; its status, and what it told.
  int serve(ForkedProcess& process) {
    siginfo_t info{};
    const bool ended = eventually([&] {
      server_->service([&](const EventServer::RankEvent& event) { events_.push_back(event); });
      return ::waitid(P_PID, static_cast<id_t>(process.pid()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
             info.si_pid != 0;
    });
    EXPECT_TRUE(ended);
    server_->service([&](const EventServer::RankEvent& event) { events_.push_back(event); });
    return process.wait();
  }

  std::unique_ptr<EventServer> server_;
  std::vector<EventServer::RankEvent> events_;
};

TEST_F(ExecEventsTest, TheSupervisorLearnsWhatARankBecomes) {
  ForkedProcess rank([&] {
    testing::become(exec({"--standalone"}) + Words{"sh", "-c", "exit 5"}, under_muster("3"));
    return 127;
  });
  const int status = serve(rank);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 5);
  ASSERT_EQ(events_.size(), 2u);  // the hello, and the event
  const auto& event = events_.back();
  EXPECT_EQ(event.generation, 3);
  EXPECT_EQ(event.rank, 0);
  EXPECT_EQ(event.event.at("event"), "exec");
  EXPECT_EQ(event.event.at("argv"), (nlohmann::json{"sh", "-c", "exit 5"}));
}

TEST_F(ExecEventsTest, ARankOfAnOldGenerationIsRefused) {
  ForkedProcess rank([&] {
    testing::become(exec({"--standalone"}) + Words{"touch", path("started").string()}, under_muster("2"));
    return 127;
  });
  const int status = serve(rank);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == contract::kExitDoNotRetry);
  EXPECT_FALSE(fs::exists(path("started")));
}

TEST_F(ExecEventsTest, ASupervisorThatIsGoneDoesNotKeepARankFromStarting) {
  const ProgramOptions options = under_muster("3");
  server_.reset();
  const ProgramResult result = run_program(exec({"--standalone"}) + Words{"sh", "-c", "exit 6"},
                                           {options.set, {}, std::chrono::seconds(60)});
  EXPECT_EQ(result.exit_code, 6) << result;
  EXPECT_THAT(result.err, HasSubstr("goes on without a supervisor"));
}

}  // namespace
}  // namespace muster
