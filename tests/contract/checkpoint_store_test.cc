// What every checkpoint store promises, whatever the number of ranks (threads, here).
#include "trainer/checkpoint/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/sample_tensors.h"
#include "tests/support/store_fixtures.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thread_ranks.h"

namespace muster::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::on_ranks;
using testing::sample_state;
using testing::sample_tensors;
using testing::sample_values;
using testing::SampleShare;
using testing::SampleTensor;
using testing::StoreFixture;

class CheckpointStoreTest : public ::testing::TestWithParam<testing::StoreKind> {
 protected:
  std::unique_ptr<StoreFixture> fixture_ = testing::make_store_fixture(GetParam());

  // The outcome on each rank.
  std::vector<Result<SaveReport>> save(int ranks, std::int64_t step, std::optional<double> metric = {},
                                       std::int32_t generation = 1) {
    return save_with(ranks, step, [&](const Group&, SaveRequest& request, SampleShare&) {
      request.metric = metric;
      request.generation = generation;
    });
  }

  // `change` may alter what one rank passes.
  std::vector<Result<SaveReport>> save_with(
      int ranks, std::int64_t step,
      const std::function<void(const Group&, SaveRequest&, SampleShare&)>& change) {
    return on_ranks(ranks, [&](const Group& group) -> Result<SaveReport> {
      SampleShare share(tensors_, step, group.rank, group.size);
      SaveRequest request;
      request.step = step;
      request.state = sample_state(step);
      request.generation = 1;
      change(group, request, share);
      request.slices = share.slices();
      MUSTER_ASSIGN(const auto store, fixture_->open(group, retention_, request.generation));
      return save_and_wait(*store, request, std::chrono::minutes(1));
    });
  }

  // Loads on that many ranks; the step found (-1: none) on all of them alike. Checks every element.
  std::int64_t load_and_check(int ranks, std::vector<Quarantined>* quarantined = nullptr) {
    const auto steps = on_ranks(ranks, [&](const Group& group) -> Result<std::int64_t> {
      MUSTER_ASSIGN(const auto store, fixture_->open(group, retention_, generation_));
      MUSTER_ASSIGN(const LoadOutcome outcome, store->load_latest());
      if (quarantined != nullptr && group.rank == ranks - 1) *quarantined = outcome.quarantined;
      if (outcome.checkpoint == nullptr) return -1;
      const auto step = outcome.checkpoint->state().at("step").get<std::int64_t>();
      MUSTER_TRY(compare(*outcome.checkpoint, step, group));
      return step;
    });
    for (const auto& step : steps) {
      EXPECT_TRUE(step) << step.error().message;
      if (!step) return -2;
      EXPECT_EQ(*step, *steps.front());
    }
    return *steps.front();
  }

  // This rank's rows, and some that straddle the writers' boundaries.
  Status compare(LoadedCheckpoint& loaded, std::int64_t step, const Group& group) const {
    if (loaded.state() != sample_state(step)) return fail(ErrorCode::kMismatch, "another state");
    for (const SampleTensor& tensor : tensors_) {
      MUSTER_ASSIGN(const auto shape, loaded.shape(tensor.name));
      if (shape != tensor.shape) return fail(ErrorCode::kMismatch, "another shape of {}", tensor.name);
      const std::vector<float> expected = sample_values(tensor, step);
      const std::int64_t rows = tensor.shape.front();
      const std::int64_t mine = rows * group.rank / group.size;
      for (const auto& [begin, end] : {std::pair(std::int64_t{0}, rows), std::pair(mine, rows),
                                       std::pair(rows / 3, rows - rows / 3), std::pair(mine, mine)}) {
        std::vector<float> got(static_cast<std::size_t>((end - begin) * tensor.row_elements()), -1.0F);
        MUSTER_TRY(loaded.read_rows(tensor.name, begin, end, got.data()));
        if (!std::equal(got.begin(), got.end(), expected.begin() + begin * tensor.row_elements())) {
          return fail(ErrorCode::kMismatch, "rows [{}, {}) of {} differ", begin, end, tensor.name);
        }
      }
    }
    return {};
  }

  void expect_all_fail(const std::vector<Result<SaveReport>>& outcomes, ErrorCode code,
                       const std::string& text) {
    for (const auto& outcome : outcomes) {
      ASSERT_FALSE(outcome);
      EXPECT_EQ(outcome.error().code, code) << outcome.error().message;
      EXPECT_THAT(outcome.error().message, HasSubstr(text));
      EXPECT_EQ(outcome.error().message, outcomes.front().error().message);
    }
  }

  std::vector<SampleTensor> tensors_ = sample_tensors();
  Retention retention_{.keep_last = 2, .keep_best = false};
  std::int32_t generation_ = 1;
};

TEST_P(CheckpointStoreTest, ThereIsNothingInANewStore) { EXPECT_EQ(load_and_check(3), -1); }

TEST_P(CheckpointStoreTest, EveryNumberOfReadersGetsWhatEveryNumberOfWritersWrote) {
  std::int64_t step = 0;
  for (int writers = 1; writers <= 5; ++writers) {
    ++step;
    const auto outcomes = save(writers, step);
    for (const auto& outcome : outcomes) {
      ASSERT_TRUE(outcome) << outcome.error().message;
      EXPECT_EQ(outcome->path, outcomes.front()->path);
      EXPECT_GT(outcome->bytes, 601 * 1024 * 4);
      EXPECT_THAT(outcome->warnings, IsEmpty());
    }
    for (int readers = 1; readers <= 5; ++readers) EXPECT_EQ(load_and_check(readers), step);
  }
}

TEST_P(CheckpointStoreTest, NamesAreSortedAndUnknownOnesAreErrors) {
  ASSERT_TRUE(save(2, 4).front());
  on_ranks(1, [&](const Group& group) {
    auto store = fixture_->open(group, retention_, 1);
    auto outcome = (*store)->load_latest();
    EXPECT_TRUE(outcome);
    auto& loaded = *outcome->checkpoint;
    const auto names = loaded.tensor_names();
    EXPECT_EQ(names.size(), tensors_.size());
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    EXPECT_EQ(loaded.shape("parameters/none").error().code, ErrorCode::kNotFound);
    float value = 0;
    EXPECT_EQ(loaded.read_rows("parameters/none", 0, 1, &value).error().code, ErrorCode::kNotFound);
    EXPECT_EQ(loaded.read_rows("parameters/scalar", 0, 2, &value).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(loaded.read_rows("parameters/scalar", -1, 1, &value).error().code, ErrorCode::kInvalidArgument);
    return 0;
  });
}

TEST_P(CheckpointStoreTest, EveryBitPatternSurvives) {
  const std::vector<std::uint32_t> bits{0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000,
                                        0x7FA00001, 0xFFFFFFFF, 0x00000001, 0x7F7FFFFF};
  std::vector<float> values(bits.size());
  std::memcpy(values.data(), bits.data(), bits.size() * sizeof(float));
  on_ranks(1, [&](const Group& group) {
    auto store = fixture_->open(group, retention_, 1);
    const TensorSlice slice{"parameters/bits", {9}, 0, 9, values.data()};
    SaveRequest request;
    request.state = nlohmann::json::object();
    request.slices = std::span(&slice, 1);
    request.generation = 1;
    EXPECT_TRUE(save_and_wait(**store, request, std::chrono::minutes(1)));
    auto outcome = (*store)->load_latest();
    std::vector<float> read(values.size());
    EXPECT_TRUE(outcome->checkpoint->read_rows("parameters/bits", 0, 9, read.data()));
    EXPECT_EQ(std::memcmp(read.data(), values.data(), bits.size() * sizeof(float)), 0);
    return 0;
  });
}

TEST_P(CheckpointStoreTest, RanksMayHaveNothingAtAll) {
  const auto outcomes = save_with(3, 5, [](const Group& group, SaveRequest&, SampleShare& share) {
    // Rank 1 has it all.
    if (group.rank != 1) share.slices().clear();
    for (TensorSlice& slice : share.slices()) {
      std::int64_t row = 1;
      for (std::size_t i = 1; i < slice.global_shape.size(); ++i) row *= slice.global_shape[i];
      slice.data -= slice.row_begin * row;
      slice.row_begin = 0;
      slice.row_end = slice.global_shape.front();
    }
  });
  ASSERT_TRUE(outcomes.front()) << outcomes.front().error().message;
  EXPECT_EQ(load_and_check(2), 5);
}

TEST_P(CheckpointStoreTest, KeepsTheLastOnes) {
  retention_.keep_last = 3;
  for (const std::int64_t step : {1, 2, 3, 4, 5}) ASSERT_TRUE(save(2, step).front());
  EXPECT_THAT(fixture_->steps(), ElementsAre(3, 4, 5));
}

TEST_P(CheckpointStoreTest, KeepsTheBestOne) {
  retention_ = {.keep_last = 1, .keep_best = true};
  ASSERT_TRUE(save(2, 1, 0.5).front());
  ASSERT_TRUE(save(2, 2, 0.9).front());
  ASSERT_TRUE(save(2, 3, 0.7).front());
  EXPECT_THAT(fixture_->steps(), ElementsAre(2, 3));
  ASSERT_TRUE(save(2, 4).front());  // without a metric it cannot be the best
  ASSERT_TRUE(save(2, 5, std::numeric_limits<double>::quiet_NaN()).front());
  EXPECT_THAT(fixture_->steps(), ElementsAre(2, 5));
  ASSERT_TRUE(save(2, 6, 0.9).front());  // of equals the newest
  ASSERT_TRUE(save(2, 7, 0.1).front());
  EXPECT_THAT(fixture_->steps(), ElementsAre(6, 7));
}

TEST_P(CheckpointStoreTest, AStepMayBeSavedAgain) {
  ASSERT_TRUE(save(2, 3).front());
  ASSERT_TRUE(save(3, 3).front());
  EXPECT_THAT(fixture_->steps(), ElementsAre(3));
  EXPECT_EQ(load_and_check(2), 3);
  ASSERT_TRUE(save(1, 3, 0.25, 2).front());
  generation_ = 2;
  EXPECT_THAT(fixture_->steps(), ElementsAre(3));
  EXPECT_EQ(load_and_check(2), 3);
}

TEST_P(CheckpointStoreTest, ADamagedOneIsPutAsideAndTheOneBeforeIsTaken) {
  for (const std::int64_t step : {1, 2}) ASSERT_TRUE(save(2, step).front());
  fixture_->damage_newest();
  std::vector<Quarantined> quarantined;
  EXPECT_EQ(load_and_check(3, &quarantined), 1);
  ASSERT_EQ(quarantined.size(), 1U);
  EXPECT_THAT(quarantined.front().path, HasSubstr("step-000000000002"));
  EXPECT_THAT(quarantined.front().reason, HasSubstr("rank-00000.h5 is damaged"));
  EXPECT_EQ(load_and_check(3, &quarantined), 1);
  EXPECT_THAT(quarantined, IsEmpty());
  fixture_->damage_newest();
  EXPECT_EQ(load_and_check(2, &quarantined), -1);
  EXPECT_EQ(quarantined.size(), 1U);
}

TEST_P(CheckpointStoreTest, WhenNoneIsLeftTheLostOneIsNamedEachTime) {
  const auto lost = [&] {
    return on_ranks(2, [&](const Group& group) {
      auto store = fixture_->open(group, retention_, 1);
      auto outcome = (*store)->load_latest();
      EXPECT_TRUE(outcome) << outcome.error().message;
      return outcome ? outcome->lost : std::nullopt;
    });
  };
  for (const auto& on_rank : lost()) EXPECT_FALSE(on_rank);
  for (const std::int64_t step : {1, 2}) ASSERT_TRUE(save(2, step).front());
  fixture_->damage_newest();
  for (const auto& on_rank : lost()) EXPECT_FALSE(on_rank) << "step 1 is sound";
  fixture_->damage_newest();
  for (int time = 0; time < 2; ++time) {
    for (const auto& on_rank : lost()) {
      ASSERT_TRUE(on_rank);
      EXPECT_THAT(on_rank->path, HasSubstr("step-000000000002"));
      EXPECT_THAT(on_rank->reason, HasSubstr("rank-00000.h5 is damaged"));
    }
  }
}

TEST_P(CheckpointStoreTest, WhatIsSavedIsWhatWasThereWhenTheSaveBegan) {
  const auto outcomes = on_ranks(3, [&](const Group& group) -> Result<SaveReport> {
    SampleShare share(tensors_, 4, group.rank, group.size);
    SaveRequest request;
    request.step = 4;
    request.state = sample_state(4);
    request.generation = 1;
    request.slices = share.slices();
    MUSTER_ASSIGN(const auto store, fixture_->open(group, retention_, 1));
    EXPECT_FALSE(store->saving());
    MUSTER_TRY(store->begin_save(request));
    EXPECT_TRUE(store->saving());
    request.state.clear();
    share = SampleShare(tensors_, 5, group.rank, group.size);  // the memory is used again
    auto report = store->finish_save(std::chrono::minutes(1));
    EXPECT_FALSE(store->saving());
    EXPECT_FALSE(store->busy());
    return report;
  });
  for (const auto& outcome : outcomes) ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(load_and_check(2), 4);
}

TEST_P(CheckpointStoreTest, AnOlderAttemptMayNotWriteAnyMore) {
  ASSERT_TRUE(save(2, 1, {}, 1).front());
  generation_ = 2;
  EXPECT_EQ(load_and_check(2), 1);
  expect_all_fail(save(2, 2, {}, 1), ErrorCode::kAborted, "attempt 2 has taken over");
  EXPECT_THAT(fixture_->steps(), ElementsAre(1));
  ASSERT_TRUE(save(2, 2, {}, 2).front());
  EXPECT_THAT(fixture_->steps(), ElementsAre(1, 2));
}

TEST_P(CheckpointStoreTest, OneRanksNonsenseFailsOnAllRanksAndHarmsNothing) {
  using Change = std::function<void(SaveRequest&, SampleShare&)>;
  struct Case {
    ErrorCode code;
    std::string text;
    Change change;
  };
  const auto kInvalid = ErrorCode::kInvalidArgument;
  const std::vector<Case> cases{
      {ErrorCode::kMismatch, "rank 0 step 9 of attempt 1, rank 1 step 8", [](auto& r, auto&) { r.step = 8; }},
      {kInvalid, "rank 1: cannot save step -1", [](auto& r, auto&) { r.step = -1; }},
      {kInvalid, "rank 1: the training state is not an object", [](auto& r, auto&) { r.state = 3; }},
      {kInvalid, "row 3 of 7 is in no file", [](auto&, auto& s) { s.slices()[0].row_begin = 4; }},
      {kInvalid, "row 2 is stored twice, in rank-00000.h5 and in rank-00001.h5",
       [](auto&, auto& s) { s.slices()[0].row_begin = 2; }},
      {kInvalid, "rows [3, 8) do not exist", [](auto&, auto& s) { s.slices()[0].row_end = 8; }},
      {kInvalid, "rows [-1, 7) do not exist", [](auto&, auto& s) { s.slices()[0].row_begin = -1; }},
      {kInvalid, "the slice has no data", [](auto&, auto& s) { s.slices()[0].data = nullptr; }},
      {ErrorCode::kMismatch, "'parameters/layer0.weight' has shape [7,5] on rank 0 and [7,4] on rank 1",
       [](auto&, auto& s) {
         s.slices()[0].global_shape = {7, 4};
       }},
      {kInvalid, "a dimension is negative",
       [](auto&, auto& s) {
         s.slices()[0].global_shape = {7, -5};
       }},
      {kInvalid, "a shape has 1 to 32 dimensions", [](auto&, auto& s) { s.slices()[0].global_shape = {}; }},
      {kInvalid, "the shape is too large",
       [](auto&, auto& s) {
         s.slices()[0].global_shape = {7, std::int64_t{1} << 40, std::int64_t{1} << 40};
       }},
      {kInvalid, "at most one slice", [](auto&, auto& s) { s.slices().push_back(s.slices().front()); }},
      {kInvalid, "tensor name '' is not allowed", [](auto&, auto& s) { s.slices()[0].name = ""; }},
      {kInvalid, "has an empty, '.' or '..' part", [](auto&, auto& s) { s.slices()[0].name = "a/../b"; }},
      {kInvalid, "is not UTF-8", [](auto&, auto& s) { s.slices()[0].name = "caf\xE9"; }},
      {kInvalid, "cannot lie inside tensor 'parameters/scalar'",
       [](auto&, auto& s) { s.slices()[2].name = "parameters/scalar/x"; }}};
  ASSERT_TRUE(save(2, 7).front());
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    expect_all_fail(save_with(2, 9,
                              [&](const Group& group, SaveRequest& request, SampleShare& share) {
                                if (group.rank == 1) c.change(request, share);
                              }),
                    c.code, c.text);
    EXPECT_THAT(fixture_->steps(), ElementsAre(7));
  }
  EXPECT_EQ(load_and_check(2), 7);
}

TEST_P(CheckpointStoreTest, AStateThatJsonCannotHoldIsRefused) {
  const std::vector<std::pair<std::string, nlohmann::json>> cases{
      {"the state's '/a/b' is not a finite number", {{"a", {{"b", std::nan("")}}}}},
      {"the state's '/0' is not a finite number", {{"0", std::numeric_limits<double>::infinity()}}},
      {"cannot be written as JSON", {{"text", "caf\xE9"}}}};
  for (const auto& entry : cases) {
    const nlohmann::json& state = entry.second;
    expect_all_fail(save_with(2, 9, [&](const Group&, SaveRequest& r, SampleShare&) { r.state = state; }),
                    ErrorCode::kInvalidArgument, entry.first);
  }
  EXPECT_THAT(fixture_->steps(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Stores, CheckpointStoreTest, ::testing::ValuesIn(testing::all_store_kinds()),
                         [](const auto& kind) { return testing::name_of(kind.param); });

}  // namespace
}  // namespace muster::checkpoint
