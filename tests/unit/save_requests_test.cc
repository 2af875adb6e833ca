// Requests for a checkpoint, from their files to rank 0's program and away again.
#include "launcher/save_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <future>
#include <thread>

#include "common/event_channel.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

class SaveRequestsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EventServer::Options options;
    options.run_id = "r-1";
    options.key = "key";
    auto server = EventServer::listen(options);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  // Rank 0's program of this attempt.
  std::unique_ptr<EventChannel> connect(int generation) {
    server_->begin_generation(generation);
    std::atomic<bool> connected = false;
    std::thread serving([&] {
      while (!connected) {
        pollfd entry{server_->fd(), POLLIN, 0};
        ::poll(&entry, 1, 5);
        server_->service([](const EventServer::RankEvent&) {});
      }
    });
    auto channel = EventChannel::connect(
        server_->address(), "key",
        {{"run", "r-1"}, {"generation", generation}, {"rank", 0}, {"world_size", 1}, {"program", "test"}},
        soon());
    connected = true;
    serving.join();
    EXPECT_TRUE(channel) << channel.error().message;
    return channel ? std::move(*channel) : nullptr;
  }

  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(run_.requests()),
                                                  std::filesystem::directory_iterator()));
  }

  testing::TemporaryDirectory directory_;
  RunDirectory run_{"r-1", directory_.path()};
  std::unique_ptr<EventServer> server_;
};

TEST_F(SaveRequestsTest, ARequestWaitsForAProgramAndIsMadeAgainToTheNextAttempt) {
  SaveRequests requests(run_);
  EXPECT_THAT(requests.pass_on(*server_, 1), IsEmpty()) << "there is no directory of requests yet";
  const std::string id = ask_for_save(run_).value();
  EXPECT_THAT(requests.pass_on(*server_, 1), IsEmpty()) << "nobody is connected";
  auto first = connect(1);
  ASSERT_TRUE(first);
  EXPECT_THAT(requests.pass_on(*server_, 1), ElementsAre(id));
  EXPECT_THAT(requests.pass_on(*server_, 1), IsEmpty()) << "it was passed on";

  std::promise<std::string> heard;
  auto second = connect(2);
  ASSERT_TRUE(second);
  EXPECT_THAT(requests.pass_on(*server_, 2), IsEmpty()) << "it is known";
  // A second call would throw: a promise is kept once.
  second->on_request([&](const json& request) { heard.set_value(request.at("request")); });
  auto request = heard.get_future();
  ASSERT_EQ(request.wait_for(soon().remaining()), std::future_status::ready);
  EXPECT_EQ(request.get(), id);

  requests.take_answer({{"event", "checkpoint"}, {"requests", {"another", id}}});
  EXPECT_EQ(files(), 0u);
}

TEST_F(SaveRequestsTest, WhoseRequestersAreGoneTheyAreDropped) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ask_for_save(run_));
  EXPECT_EQ(files(), 3u);
  SaveRequests(run_).drop_all();
  EXPECT_EQ(files(), 0u);
}

TEST_F(SaveRequestsTest, RefusedOnesAreNamedAndRemoved) {
  const std::string id = ask_for_save(run_).value();
  EXPECT_THAT(SaveRequests(run_).refuse(), ElementsAre(id));
  EXPECT_EQ(files(), 0u);
  const std::string other = ask_for_save(run_).value();
  withdraw_request(run_, other);
  EXPECT_THAT(SaveRequests(run_).refuse(), IsEmpty());
}

}  // namespace
}  // namespace muster
