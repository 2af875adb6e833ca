// Nothing is lost, provably: whatever is killed, whenever, the continued run ends with the weights of one
// that was never disturbed.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>

#include "common/clock.h"
#include "common/run_contract.h"
#include "tests/support/eventually.h"
#include "tests/support/run_under_test.h"

namespace muster {
namespace {

namespace event = contract::event;
using nlohmann::json;
using testing::demanding_task;
using testing::RunUnderTest;

constexpr std::int64_t kEpochs = 10;
constexpr std::int64_t kSteps = 24 * kEpochs;
constexpr std::int64_t kCheckpointInterval = 20;
constexpr std::int64_t kSamples = 1500;

enum class Victim { kRank, kMpirun, kMuster };

struct Kill {
  Victim victim = Victim::kRank;
  int rank = 0;
  std::int64_t step = 0;  // as soon as some rank begins this step
};

std::string to_text(const Kill& kill) {
  switch (kill.victim) {
    case Victim::kRank:
      return fmt::format("rank {} at step {}", kill.rank, kill.step);
    case Victim::kMpirun:
      return fmt::format("mpirun at step {}", kill.step);
    case Victim::kMuster:
      break;
  }
  return fmt::format("muster at step {}", kill.step);
}

// A schedule's victims follow from its seed: the first kill cycles through the kinds, a second one follows in
// every other schedule. Two of three first kills come after the first checkpoint.
std::vector<Kill> schedule_of(unsigned seed, int ranks) {
  std::mt19937 random(seed);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  std::vector<Kill> kills;
  const std::int64_t first =
      seed % 3 == 2 ? between(1, kSteps / 3) : between(kCheckpointInterval + 4, kSteps * 2 / 3);
  kills.push_back({static_cast<Victim>(seed / 3 % 3), static_cast<int>(between(0, ranks - 1)), first});
  if (seed % 2 == 1) {
    kills.push_back({static_cast<Victim>(between(0, 2)), static_cast<int>(between(0, ranks - 1)),
                     between(first + kCheckpointInterval, kSteps - 5)});
  }
  return kills;
}

std::string undisturbed_hash() {
  static const std::string hash = [] {
    RunUnderTest run(demanding_task(2, kEpochs));
    EXPECT_EQ(run.run({"--quiet"}), 0) << run.output();
    return run.hash();
  }();
  return hash;
}

// True if the step was reached before the run ended.
bool carry_out(RunUnderTest& run, const Kill& kill) {
  const int attempt_before = [&] {
    int newest = 0;
    for (const json& e : run.events()) newest = std::max(newest, e.value("generation", 0));
    return newest;
  }();
  const bool reached = run.wait_for([&](const json& e) {
    return e.at("event") == event::kSamples && e.at("step") >= kill.step &&
           e.at("generation") >= attempt_before;
  });
  if (!reached) return false;
  const pid_t pid = kill.victim == Victim::kRank     ? run.rank_pid(kill.rank)
                    : kill.victim == Victim::kMpirun ? run.mpirun_pid()
                                                     : run.pid();
  if (pid <= 0) return false;
  ::kill(pid, SIGKILL);
  return true;
}

void expect_nothing_left(const RunUnderTest& run) {
  EXPECT_TRUE(testing::eventually([&] { return run.processes().empty(); }))
      << "processes outlived a killed muster";
}

struct Resumptions {
  int after_a_checkpoint = 0;
  int from_the_start = 0;
};

// What the journal tells about saves, by rank 0's events alone: they come in order, so that a save that began
// before a step is known if the step is. (Another rank is at most one step further.)
struct SavesSeen {
  std::int64_t committed = 0;
  std::int64_t begun = 0;                                // the save begun last
  std::map<std::int64_t, std::int64_t> steps_meanwhile;  // by saved step: how many steps were done meanwhile
};

// Each resumption went on from the last committed checkpoint. Steps that are redone: up to an interval, and
// those that were done while the save in flight was written. (A save that takes longer than an interval
// delays the next.)
Resumptions check_resumptions(const std::vector<json>& events) {
  Resumptions counted;
  SavesSeen saves;
  std::int64_t reached = -1;  // the last step begun by the attempt before
  bool resumed = false;
  int attempt = 0;
  for (const json& e : events) {
    const std::string name = e.at("event");
    const auto step = e.value("step", std::int64_t{0});
    if (name == event::kAttemptStarted) {
      if (attempt > 0 && !resumed && saves.committed == 0) ++counted.from_the_start;
      ++attempt;
      resumed = false;
    }
    if (name == event::kCheckpointBegun) saves.begun = step;
    if (name == event::kCheckpoint) {
      saves.committed = std::max(saves.committed, step);
      saves.steps_meanwhile[step] = e.at("steps_meanwhile").get<std::int64_t>();
    }
    if (name == event::kResumed) {
      resumed = true;
      EXPECT_GT(step, 0);
      EXPECT_GE(step, saves.committed) << "a committed checkpoint was not used";
      // In flight when it was killed: a later save, or this one, if the kill came before training heard of
      // its end.
      const bool heard_of = saves.steps_meanwhile.contains(step);
      const bool in_flight = saves.begun > step || !heard_of;
      const std::int64_t until = in_flight ? saves.begun : reached + 1;
      // The next save begins after the step in which training heard of this one's end.
      const std::int64_t delay = heard_of ? saves.steps_meanwhile[step] + 1 : 0;
      EXPECT_LE(until - step, std::max(kCheckpointInterval, delay)) << "more was redone than an interval";
      ++counted.after_a_checkpoint;
      reached = -1;
      saves.begun = step;
    }
    if (name == event::kSamples && e.at("rank") == 0) reached = std::max(reached, step);
  }
  return counted;
}

class KillSchedule : public ::testing::TestWithParam<unsigned> {};

TEST_P(KillSchedule, EndsWithTheWeightsOfAnUndisturbedRun) {
  const unsigned seed = GetParam();
  const int ranks = 2 + static_cast<int>(seed % 2);
  const std::vector<Kill> kills = schedule_of(seed, ranks);
  std::string text;
  for (const Kill& kill : kills) text += (text.empty() ? "" : ", ") + to_text(kill);
  SCOPED_TRACE(fmt::format("seed {}, {} ranks: kill {}", seed, ranks, text));
  fmt::print("seed {}, {} ranks: kill {}\n", seed, ranks, text);
  std::fflush(stdout);

  RunUnderTest run(demanding_task(ranks, kEpochs));
  run.start();
  int carried_out = 0;
  for (const Kill& kill : kills) {
    if (!carry_out(run, kill)) break;
    ++carried_out;
    if (kill.victim == Victim::kMuster) {
      EXPECT_EQ(run.wait(), 128 + SIGKILL);
      expect_nothing_left(run);
      run.start();
    }
  }
  ASSERT_EQ(run.wait(), 0) << run.output();
  ASSERT_GE(carried_out, 1) << "the run ended before anything was killed";

  EXPECT_EQ(run.hash(), undisturbed_hash());
  const Resumptions resumptions = check_resumptions(run.events());
  if (kills[0].step > kCheckpointInterval + 3) {
    EXPECT_GE(resumptions.after_a_checkpoint, 1);
  }
  const bool muster_died = std::any_of(kills.begin(), kills.end(),
                                       [](const Kill& kill) { return kill.victim == Victim::kMuster; });
  for (const auto& [epoch, ids] : testing::samples_by_epoch(run.events())) {
    std::vector<std::int64_t> all(kSamples);
    std::iota(all.begin(), all.end(), 0);
    if (muster_died) {
      // Events that it had not read yet are lost with it, though a checkpoint may hold their steps: what is
      // told is told once, and the hash says that nothing was left out.
      EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end())
          << "epoch " << epoch << ": a sample twice";
      continue;
    }
    EXPECT_EQ(ids, all) << "epoch " << epoch << ": not each sample exactly once";
  }
  expect_nothing_left(run);
}

INSTANTIATE_TEST_SUITE_P(Exactness, KillSchedule, ::testing::Range(0u, 24u));

}  // namespace
}  // namespace muster
