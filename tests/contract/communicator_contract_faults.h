// The contract of Communicator where ranks disagree, stay away or give up: everybody gets the same news,
// soon. Included by each binary that runs it (see communicator_group.h).
#pragma once

#include <gmock/gmock.h>

#include <thread>

#include "common/clock.h"
#include "tests/contract/communicator_group.h"
#include "trainer/comm/shard_tree.h"

namespace muster::comm::contract {

// "Within a second or so" on a quiet machine; this one may be anything but.
constexpr double kSoon_s = 20.0;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Memory that outlives broken communicators, to which a message may still be under way.
inline std::vector<float>& lasting_buffer() {
  static std::vector<std::unique_ptr<std::vector<float>>> buffers;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  buffers.push_back(std::make_unique<std::vector<float>>(4096));
  return *buffers.back();
}

struct Disagreement {
  const char* what;
  const char* odd_value;   // what the odd rank says
  const char* even_value;  // what all others say
  std::function<std::unique_ptr<Work>(Communicator&, bool odd, float* data)> call;
};

inline std::vector<Disagreement> disagreements() {
  return {
      {"step", "8", "7",
       [](Communicator& c, bool odd, float* data) {
         return c.all_reduce(data, 1000, DType::kFloat32, of_step(odd ? 8 : 7));
       }},
      {"bucket", "12", "11",
       [](Communicator& c, bool odd, float* data) {
         return c.all_gather(data, 1000, DType::kFloat32, of_step(1, odd ? 12 : 11));
       }},
      {"count", "999", "1000",
       [](Communicator& c, bool odd, float* data) {
         return c.all_reduce(data, odd ? 999 : 1000, DType::kFloat32, of_step(1));
       }},
      {"type", "float64", "float32",
       [](Communicator& c, bool odd, float* data) {
         return c.reduce_scatter(data, 500, odd ? DType::kFloat64 : DType::kFloat32, of_step(1));
       }},
      {"operation", "barrier", "all_reduce",
       [](Communicator& c, bool odd, float* data) {
         return odd ? c.barrier(of_step(1)) : c.all_reduce(data, 1000, DType::kFloat32, of_step(1));
       }},
      {"root", "1", "0",
       [](Communicator& c, bool odd, float* data) {
         return c.broadcast(data, 100, DType::kFloat32, odd ? 1 : 0, of_step(1));
       }},
      {"number of shards", "16", "8",
       [](Communicator& c, bool odd, float* data) {
         const int shards = odd ? 16 : 8;
         std::vector<ShardPartial> partials;
         for (const ShardBlock& block : dyadic_blocks(shard_range(c.rank(), c.size(), shards)))
           partials.push_back({block.level, block.index, data});
         return c.all_reduce_shards(partials, shards, data + 1000, 1000, DType::kFloat32, of_step(1));
       }},
  };
}

TEST_P(CommunicatorContract, ADisagreementIsEverybodysErrorAndNamesTheRankAndBothValues) {
  for (const Disagreement& disagreement : disagreements()) {
    run([&](Communicator& c) {
      if (c.size() == 1) return;
      SCOPED_TRACE(disagreement.what);
      const int odd_rank = c.size() - 1;
      float* data = lasting_buffer().data();
      const Stopwatch stopwatch;
      const Status status = disagreement.call(c, c.rank() == odd_rank, data)->wait();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, ErrorCode::kMismatch) << status.error().message;
      EXPECT_LT(stopwatch.seconds(), kSoon_s);
      const std::string& text = status.error().message;
      const auto says = [](const char* value, const std::string& rank) {
        return fmt::format("{} on rank {}", value, rank);
      };
      EXPECT_THAT(text, ::testing::HasSubstr(disagreement.what));
      EXPECT_THAT(text, ::testing::HasSubstr(says(disagreement.odd_value, std::to_string(odd_rank))));
      EXPECT_THAT(text, ::testing::HasSubstr(says(disagreement.even_value, "")));
      EXPECT_TRUE(c.fault_rank().has_value());
      // Broken for good, with the same news.
      const Status later = c.barrier(of_step(2))->wait();
      ASSERT_FALSE(later);
      EXPECT_EQ(later.error().message, text);
    });
  }
}

TEST_P(CommunicatorContract, ARankThatGivesUpTakesTheOthersWithIt) {
  run([](Communicator& c) {
    const Stopwatch stopwatch;
    if (c.rank() == 0) c.abort("the disk is full");
    const Status status = c.barrier(of_step(1))->wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kAborted);
    EXPECT_THAT(status.error().message, ::testing::HasSubstr("rank 0 gave up: the disk is full"));
    EXPECT_EQ(c.fault_rank(), 0);
    EXPECT_LT(stopwatch.seconds(), kSoon_s);
  });
}

TEST_P(CommunicatorContract, WrongArgumentsOnOneRankAreEverybodysError) {
  run([](Communicator& c) {
    float value = 0;
    const ShardPartial wrong{1, 5, &value};
    const Status status =
        c.rank() == c.size() - 1
            ? c.all_reduce_shards({&wrong, 1}, 64, &value, 1, DType::kFloat32, of_step(1))->wait()
            : c.barrier(of_step(1))->wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument) << status.error().message;
    EXPECT_THAT(status.error().message, ::testing::HasSubstr(fmt::format("rank {}", c.size() - 1)));
  });
}

TEST_P(CommunicatorContract, AWaitEndsAtItsDeadlineAndNamesTheRankThatStayedAway) {
  CommunicatorOptions with = options();
  with.peer_timeout = std::chrono::milliseconds(1600);  // a heartbeat, which tells who has begun, each 200 ms
  // Threads know at once who has begun.
  const std::chrono::milliseconds timeout(GetParam().size == 0 ? 1000 : 200);
  run(with, [timeout](Communicator& c) {
    if (c.size() == 1) return;
    const int late = c.size() - 1;
    const Stopwatch stopwatch;
    if (c.rank() == late) {  // stays away until the others have given up
      const Deadline deadline = Deadline::after(kGenerous);
      while (!c.fault_rank() && !deadline.expired()) std::this_thread::yield();
    }
    CollectiveOptions options = of_step(5);
    options.timeout = timeout;
    const Status status = c.barrier(options)->wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kDeadlineExceeded) << status.error().message;
    EXPECT_THAT(status.error().message, ::testing::HasSubstr(fmt::format("waiting for rank {}", late)));
    EXPECT_EQ(c.fault_rank(), late);
    EXPECT_GE(stopwatch.seconds(), 0.19);
    EXPECT_LT(stopwatch.seconds(), kSoon_s);
  });
}

TEST_P(CommunicatorContract, DroppingACommunicatorInMidOperationIsNewsForTheOthers) {
  run([](Communicator& c) {
    if (c.size() == 1) return;
    if (c.rank() == c.size() - 1) {
      float* data = lasting_buffer().data();
      const auto abandoned = c.all_reduce(data, 1000, DType::kFloat32, of_step(1, 2));
      return;  // and with it goes the communicator
    }
    const Status status = c.barrier(of_step(1, 2))->wait();
    ASSERT_FALSE(status);
    // Whichever is noticed first: the disagreement or the drop.
    EXPECT_THAT(status.error().code, ::testing::AnyOf(ErrorCode::kMismatch, ErrorCode::kAborted));
  });
}

}  // namespace muster::comm::contract
