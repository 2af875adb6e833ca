// Bare metal: several hosts, a host file, and an rsh agent. The hosts are namespaces (netns_hosts.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "common/file_ops.h"
#include "common/journal.h"
#include "common/run_contract.h"
#include "tests/support/eventually.h"
#include "tests/support/netns_hosts.h"
#include "tests/support/subprocess.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using testing::eventually;
using testing::ForkedProcess;
using ::testing::HasSubstr;
using testing::NetnsHosts;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;

using Words = std::vector<std::string>;

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

class HostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Beside the executables: /tmp is private to each host.
    std::string pattern = testing::built_program("../hosts-test-XXXXXX");
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    shared_ = fs::canonical(pattern);
    fs::create_directory(shared_ / "out");
    std::string reason;
    hosts_ = NetnsHosts::create(shared_, 3, reason);
    if (hosts_ == nullptr) GTEST_SKIP() << reason;
    std::ofstream(shared_ / "hostfile") << "host1 slots=2\nhost2 slots=1  # a small one\nhost3 slots=2\n";
    write_task(0);
  }
  void TearDown() override {
    hosts_.reset();
    std::error_code ignored;
    fs::remove_all(shared_, ignored);
  }

  static std::string program() { return std::string(MUSTER_SOURCE_DIR) + "/tests/support/meet_at_master.py"; }

  void write_task(int stay) const {
    std::ofstream(shared_ / "task.yaml") << "task_name: meeting\n"
                                            "num_workers: 5\n"
                                            "entry_point: "
                                         << program()
                                         << "\n"
                                            "checkpoint_path: "
                                         << (shared_ / "runs").string()
                                         << "\n"
                                            "env: {OUT: "
                                         << (shared_ / "out").string() << ", STAY: \"" << stay << "\"}\n";
  }

  Words muster_run(const std::string& task = "task.yaml") const {
    return hosts_->on_head({testing::built_program("muster"), "run", (shared_ / task).string(), "--hostfile",
                            (shared_ / "hostfile").string(), "--rsh-agent", hosts_->rsh_agent().string()});
  }

  ProgramOptions options() const {
    return {{{"XDG_STATE_HOME", (shared_ / "state").string()}, {"OUT", (shared_ / "out").string()}},
            {"XDG_RUNTIME_DIR"},
            std::chrono::seconds(120)};
  }

  // What rank R wrote; null before it did.
  json told_by(int rank) const {
    const auto text = read_text_file(shared_ / "out" / ("rank-" + std::to_string(rank) + ".json"));
    return text ? json::parse(*text) : json();
  }

  // One variable (or the host name) of all ranks.
  std::vector<std::string> of_all(const char* name, int ranks = 5) const {
    std::vector<std::string> values;
    for (int rank = 0; rank < ranks; ++rank) {
      const json told = told_by(rank);
      if (told.is_null()) {
        values.emplace_back("(nothing)");
      } else if (std::string_view(name) == "host") {
        values.push_back(told.at("host"));
      } else {
        values.push_back(told.at("environment").value(name, "(unset)"));
      }
    }
    return values;
  }

  std::vector<json> journal() const {
    for (const fs::directory_entry& run : fs::directory_iterator(shared_ / "runs")) {
      const auto contents = read_journal(run.path() / "journal.jsonl");
      if (contents) return contents->events;
    }
    return {};
  }

  fs::path shared_;
  std::unique_ptr<NetnsHosts> hosts_;
};

TEST_F(HostsTest, EveryRankKnowsItsPlaceAndReachesRankZero) {
  const ProgramResult result = run_program(muster_run(), options());
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(of_all("host"), ElementsAre("host1", "host1", "host2", "host3", "host3"));
  EXPECT_THAT(of_all("RANK"), ElementsAre("0", "1", "2", "3", "4"));
  EXPECT_THAT(of_all("NODE_RANK"), ElementsAre("0", "0", "1", "2", "2"));
  EXPECT_THAT(of_all("LOCAL_RANK"), ElementsAre("0", "1", "0", "0", "1"));
  EXPECT_THAT(of_all("LOCAL_WORLD_SIZE"), ElementsAre("2", "2", "1", "2", "2"));
  EXPECT_THAT(of_all("MASTER_ADDR"), ::testing::Each(NetnsHosts::address(1)));
  EXPECT_THAT(of_all("MASTER_PORT"), ::testing::Each(of_all("MASTER_PORT").front()));
  EXPECT_EQ(told_by(0).at("heard"), (json{"1 host1", "2 host2", "3 host3", "4 host3"}));
}

// Over three hosts as on this machine alone: the same weights, bit for bit.
TEST_F(HostsTest, MusterTrainComputesTheSameOverTheHostsOfAHostFile) {
  const auto task = [&](const char* name, int workers) {
    std::ofstream(shared_ / (std::string(name) + ".yaml"))
        << "task_name: " << name << "\nnum_workers: " << workers
        << "\nentry_point: muster-train\ndata_path: " << MUSTER_SOURCE_DIR
        << "/examples/data/digits8x8\ncheckpoint_path: " << (shared_ / "runs").string()
        << "\ntrainer: {hidden: [16], batch_size: 64, steps: 30, shards: 8, checkpoint: {every_steps: 10}}\n";
  };
  const auto hash_of = [&](const char* name) {
    const ProgramResult result =
        run_program({testing::built_program("muster"), "checkpoint", "hash", name}, options());
    EXPECT_EQ(result.exit_code, 0) << result;
    return result.out;
  };
  task("over_hosts", 5);
  const ProgramResult over_hosts = run_program(muster_run("over_hosts.yaml"), options());
  ASSERT_EQ(over_hosts.exit_code, 0) << over_hosts;
  std::set<std::string> nodes;
  for (const json& event : journal()) {
    if (event.at("event") == contract::event::kHello && event.at("program") == "muster-train")
      nodes.insert(event.at("node"));
  }
  EXPECT_THAT(nodes, ElementsAre("host1", "host2", "host3"));
  task("alone", 1);
  const ProgramResult alone =
      run_program({testing::built_program("muster"), "run", (shared_ / "alone.yaml").string()}, options());
  ASSERT_EQ(alone.exit_code, 0) << alone;
  EXPECT_EQ(hash_of("over_hosts"), hash_of("alone"));
}

TEST_F(HostsTest, UnderTheUsersOwnMpirun) {
  const auto mpirun_on = [&](const Words& hosts) {
    return hosts_->on_head(Words{"mpirun", "--allow-run-as-root", "--bind-to", "none"} + hosts +
                           Words{"--mca", "plm_rsh_agent", hosts_->rsh_agent().string(), "--map-by", "node",
                                 "-np", "5", "-x", "OUT", testing::built_program("muster"), "exec"});
  };
  // Rank 0 beside mpirun: nothing else is needed.
  const ProgramResult beside = run_program(
      mpirun_on({"--host", "head:2,host1:1,host2:2"}) + Words{"--", "python3", program()}, options());
  ASSERT_EQ(beside.exit_code, 0) << beside;
  EXPECT_THAT(of_all("host"), ElementsAre("head", "host1", "host2", "head", "host2"));
  EXPECT_THAT(of_all("NODE_RANK"), ElementsAre("0", "1", "2", "0", "2"));
  EXPECT_THAT(of_all("MASTER_ADDR"), ::testing::Each(NetnsHosts::address(0)));

  // Elsewhere: the others cannot know where.
  const Words mpirun = mpirun_on({"--hostfile", (shared_ / "hostfile").string()});
  Words without = mpirun;
  without.insert(without.end(), {"--", "python3", program()});
  const ProgramResult refused = run_program(without, options());
  EXPECT_EQ(refused.exit_code, contract::kExitDoNotRetry) << refused;
  EXPECT_THAT(refused.err, HasSubstr("rank 0 does not run on"));
  EXPECT_THAT(refused.err, HasSubstr("--rendezvous-dir"));

  Words with = mpirun;
  with.insert(with.end(), {"--rendezvous-dir", (shared_ / "meet").string(), "--", "python3", program()});
  const ProgramResult result = run_program(with, options());
  ASSERT_EQ(result.exit_code, 0) << result;
  // By node, neighbouring ranks are on different hosts.
  EXPECT_THAT(of_all("host"), ElementsAre("host1", "host2", "host3", "host1", "host3"));
  EXPECT_THAT(of_all("NODE_RANK"), ElementsAre("0", "1", "2", "0", "2"));
  EXPECT_THAT(of_all("LOCAL_RANK"), ElementsAre("0", "0", "0", "1", "1"));
  EXPECT_THAT(of_all("MASTER_ADDR"), ::testing::Each(NetnsHosts::address(1)));
}

TEST_F(HostsTest, ALostHostIsNoticedAndNothingIsLeftOnTheOthers) {
  write_task(1);
  ForkedProcess run([&] {
    testing::become(muster_run(), options());
    return 127;
  });
  for (int rank = 0; rank < 5; ++rank) {
    ASSERT_TRUE(eventually([&] { return !told_by(rank).is_null(); })) << "rank " << rank;
  }
  hosts_->kill_host(2);
  const auto first_verdict = [&]() -> json {
    for (const json& event : journal()) {
      if (event.at("event") == "attempt_ended") return event.at("verdict");
    }
    return {};
  };
  ASSERT_TRUE(eventually([&] { return !first_verdict().is_null(); }));
  EXPECT_EQ(first_verdict().at("cause"), "node_failure") << first_verdict();
  run.send(SIGTERM);
  // A second signal kills; one right after the first is taken for its echo, so it is repeated until it
  // counts.
  int status = 0;
  EXPECT_TRUE(eventually([&] {
    run.send(SIGTERM);
    return run.wait_if_ended(status);
  }));
  for (const int host : {1, 3}) {
    EXPECT_TRUE(eventually([&] { return hosts_->processes_of(host).empty(); }))
        << "host " << host << ": " << hosts_->describe_processes_of(host);
  }
}

}  // namespace
}  // namespace muster
