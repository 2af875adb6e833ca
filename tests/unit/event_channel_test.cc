// The event channel's two ends against each other, and the server against strangers. Loopback only.
#include "common/event_channel.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <condition_variable>
#include <cstdlib>
#include <thread>

#include "common/file_ops.h"
#include "common/json_fields.h"
#include "common/run_contract.h"
#include "launcher/event_server.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr const char* kKey = "0123456789abcdef";

Deadline soon() { return Deadline::after(seconds(20)); }

json hello(int rank, int generation = 1) {
  return {{"run", "r-1"}, {"generation", generation}, {"rank", rank}, {"world_size", 2}, {"program", "test"}};
}

// A server that a thread keeps serving, as the run loop does.
class EventChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EventServer::Options options;
    options.run_id = "r-1";
    options.key = kKey;
    options.world_size = 2;
    options.hello_timeout = hello_timeout_;
    auto server = EventServer::listen(options);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    server_->begin_generation(1);
    thread_ = std::thread([this] { serve(); });
  }
  void TearDown() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    if (thread_.joinable()) thread_.join();
  }

  void serve() {
    for (;;) {
      pollfd entry{server_fd(), POLLIN, 0};
      ::poll(&entry, 1, 5);
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      served_.notify_all();
      if (paused_) continue;
      server_->service([this](const EventServer::RankEvent& event) { events_.push_back(event); });
    }
  }
  int server_fd() const { return server_->fd(); }

  // Looks whenever the server had its turn.
  bool eventually(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex_);
    return served_.wait_for(lock, soon().remaining(), holds);
  }
  int count(const std::string& kind) const {
    int found = 0;
    for (const auto& event : events_) found += text_field(event.event, "event") == kind ? 1 : 0;
    return found;
  }
  void pause(bool paused) {
    const std::lock_guard lock(mutex_);
    paused_ = paused;
  }
  void begin_generation(int generation) {
    const std::lock_guard lock(mutex_);
    server_->begin_generation(generation);
  }
  Result<std::unique_ptr<EventChannel>> connect(const json& first_words, const std::string& key = kKey) {
    return EventChannel::connect(server_->address(), key, first_words, soon());
  }

  UniqueFd stranger() const {
    const std::string address = server_->address();
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  // True once the server has closed the connection.
  static bool closed(const UniqueFd& fd) {
    const Deadline deadline = soon();
    char byte = 0;
    for (;;) {
      pollfd entry{fd.get(), POLLIN, 0};
      if (::poll(&entry, 1, static_cast<int>(deadline.remaining().count())) <= 0) return false;
      if (::recv(fd.get(), &byte, 1, MSG_DONTWAIT) <= 0) return true;
    }
  }
  static void send(const UniqueFd& fd, const std::string& text) {
    std::size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t result = ::send(fd.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (result <= 0) return;  // closed on us
      sent += static_cast<std::size_t>(result);
    }
  }

  milliseconds hello_timeout_{10000};
  std::unique_ptr<EventServer> server_;
  std::mutex mutex_;
  std::condition_variable served_;  // the server had its turn
  std::vector<EventServer::RankEvent> events_;
  bool stop_ = false;
  bool paused_ = false;
  std::thread thread_;
};

TEST_F(EventChannelTest, EventsArriveInOrderAndStamped) {
  auto channel = connect(hello(1));
  ASSERT_TRUE(channel) << channel.error().message;
  for (int step = 0; step < 1000; ++step) {
    (*channel)->emit({{"event", "step"}, {"step", step}, {"rank", 77}, {"generation", 99}});
  }
  ASSERT_TRUE((*channel)->flush(soon()));
  ASSERT_TRUE(eventually([&] { return events_.size() == 1001; }));
  EXPECT_EQ(events_[0].event.at("event"), "hello");
  EXPECT_FALSE(events_[0].event.contains("key"));
  EXPECT_EQ(events_[0].event.at("pid"), ::getpid());
  for (int step = 0; step < 1000; ++step) {
    const auto& received = events_[static_cast<std::size_t>(step) + 1];
    EXPECT_EQ(received.event.at("step"), step);
    EXPECT_EQ(received.rank, 1);
    EXPECT_EQ(received.event.at("rank"), 1);
    EXPECT_EQ(received.event.at("generation"), 1);
    EXPECT_EQ(received.program, "test");
  }
}

TEST_F(EventChannelTest, WhatWasFlushedArrivesThoughTheSenderDies) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto channel = EventChannel::connect(server_->address(), kKey, hello(0), soon());
    if (!channel) ::_exit(1);
    (*channel)->emit({{"event", "finished"}, {"step", 5}});
    ::_exit((*channel)->flush(soon()) ? 0 : 2);  // no destructor runs
  }
  EXPECT_TRUE(eventually([&] { return count("finished") == 1; }));
  EXPECT_TRUE(eventually([&] { return server_->rank_connections() == 0; }));
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(EventChannelTest, TheRefusedAreToldWhy) {
  const auto reason = [&](const json& first_words, const std::string& key = kKey) {
    const auto channel = connect(first_words, key);
    EXPECT_FALSE(channel);
    if (channel) return std::string();
    EXPECT_EQ(channel.error().code, ErrorCode::kMismatch);
    return channel.error().message;
  };
  EXPECT_THAT(reason(hello(0), "0123456789abcdee"), HasSubstr("key"));
  EXPECT_THAT(reason(hello(0), ""), HasSubstr("key"));
  EXPECT_THAT(reason(hello(0, 2)), HasSubstr("attempt 2, the current one is 1"));
  EXPECT_THAT(reason(hello(2)), HasSubstr("rank 2 is outside"));
  EXPECT_THAT(reason(hello(-1)), HasSubstr("rank -1 is outside"));
  json other = hello(0);
  other["world_size"] = 1;
  EXPECT_THAT(reason(other), HasSubstr("world of 1"));
  other = hello(0);
  other["run"] = "r-2";
  EXPECT_THAT(reason(other), HasSubstr("r-2"));
  EXPECT_TRUE(eventually([&] { return server_->counters().refused == 7; }));
  EXPECT_TRUE(eventually([&] { return server_->counters().stale_generation == 1; }));
  EXPECT_TRUE(events_.empty());
}

TEST_F(EventChannelTest, AnotherProtocolIsRefused) {
  const UniqueFd fd = stranger();
  json first_words = hello(0);
  first_words.update({{"event", "hello"}, {"key", kKey}, {"protocol", 2}, {"version", "9.9"}});
  send(fd, first_words.dump() + "\n");
  EXPECT_TRUE(closed(fd));
  EXPECT_TRUE(events_.empty());
}

TEST_F(EventChannelTest, GarbageHasNoEffect) {
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\n"), std::string("null\n"), std::string("[1]\n"),
        std::string("{\"event\":\"step\",\"step\":1}\n"), std::string(1000, '[') + "\n",
        std::string("{\"event\":\"hello\",\"key\":17}\n"), std::string("\0\xff\n", 3),
        std::string(100000, 'x')}) {
    const UniqueFd fd = stranger();
    send(fd, garbage);
    EXPECT_TRUE(closed(fd)) << garbage.substr(0, 40);
  }
  auto channel = connect(hello(0));
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_TRUE(eventually([&] { return events_.size() == 1; }));
}

TEST_F(EventChannelTest, MalformedLinesOfAWelcomedRankAreCountedAndSkipped) {
  const UniqueFd fd = stranger();
  json first_words = hello(0);
  first_words.update({{"event", "hello"}, {"key", kKey}, {"protocol", contract::kProtocolVersion}});
  send(fd, first_words.dump() + "\nnot json\n{\"no\":\"event\"}\n{\"event\":7}\n{\"event\":\"fault\"}\n");
  EXPECT_TRUE(eventually([&] { return count("fault") == 1; }));
  EXPECT_TRUE(eventually([&] { return server_->counters().malformed_lines == 3; }));
}

TEST_F(EventChannelTest, ALineWithoutEndCostsTheConnection) {
  const UniqueFd fd = stranger();
  json first_words = hello(0);
  first_words.update({{"event", "hello"}, {"key", kKey}, {"protocol", contract::kProtocolVersion}});
  send(fd, first_words.dump() + "\n");
  send(fd, std::string(EventChannel::kLineBytesMax + 100000, 'x'));
  EXPECT_TRUE(closed(fd));
}

TEST_F(EventChannelTest, AnEventTooLongForALineIsDroppedByTheSender) {
  auto channel = connect(hello(0));
  ASSERT_TRUE(channel);
  (*channel)->emit({{"event", "samples"}, {"ids", std::string(EventChannel::kLineBytesMax, 'x')}});
  (*channel)->emit({{"event", "finished"}});
  EXPECT_TRUE(eventually([&] { return count("finished") == 1; }));
  EXPECT_EQ((*channel)->dropped(), 1U);
}

TEST_F(EventChannelTest, CrowdsOfSilentStrangersDoNotKeepRanksOut) {
  std::vector<UniqueFd> crowd;
  for (int i = 0; i < 200; ++i) crowd.push_back(stranger());
  auto channel = connect(hello(0));
  ASSERT_TRUE(channel) << channel.error().message;
  (*channel)->emit({{"event", "finished"}});
  EXPECT_TRUE(eventually([&] { return count("finished") == 1; }));
  EXPECT_TRUE((*channel)->connected());
}

TEST_F(EventChannelTest, ANewGenerationClosesTheOldOnesConnections) {
  auto channel = connect(hello(0));
  ASSERT_TRUE(channel);
  std::mutex mutex;
  std::condition_variable changed;
  bool gone = false;
  (*channel)->on_disconnect([&] {
    const std::lock_guard lock(mutex);
    gone = true;
    changed.notify_all();
  });
  begin_generation(2);
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, seconds(20), [&] { return gone; }));
  lock.unlock();
  EXPECT_FALSE((*channel)->connected());
  (*channel)->emit({{"event", "checkpoint"}, {"step", 1}});
  EXPECT_EQ((*channel)->flush(soon()).has_value(), true) << "nothing is queued on a broken channel";
  EXPECT_EQ((*channel)->dropped(), 1U);
  bool told_at_once = false;
  (*channel)->on_disconnect([&] { told_at_once = true; });
  EXPECT_TRUE(told_at_once);
  EXPECT_EQ(count("checkpoint"), 0);
  EXPECT_TRUE(connect(hello(0, 2)));
}

TEST_F(EventChannelTest, ASupervisorThatDoesNotReadCostsStepsNotTime) {
  auto channel = connect(hello(0));
  ASSERT_TRUE(channel);
  pause(true);
  const json step = {{"event", "step"}, {"padding", std::string(4000, 'x')}};
  constexpr int kSteps = 5000;  // far more than queue and sockets hold
  const Deadline generous = Deadline::after(seconds(10));
  for (int i = 0; i < kSteps; ++i) (*channel)->emit(step);
  EXPECT_FALSE(generous.expired());
  EXPECT_GT((*channel)->dropped(), 0U);
  const Status flushed = (*channel)->flush(Deadline::after(milliseconds(50)));
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code, ErrorCode::kDeadlineExceeded);
  pause(false);
  EXPECT_TRUE((*channel)->flush(soon()));
  (*channel)->emit({{"event", "finished"}});
  EXPECT_TRUE(eventually([&] { return count("finished") == 1; }));
}

TEST(EventChannelAddress, MustBeNumericAndWhole) {
  for (const char* bad : {"", "127.0.0.1:80", "tcp://", "tcp://localhost:80", "tcp://127.0.0.1", "tcp://:x",
                          "udp://1.2.3.4:5"}) {
    const auto channel = EventChannel::connect(bad, kKey, hello(0), soon());
    ASSERT_FALSE(channel) << bad;
    EXPECT_EQ(channel.error().code, ErrorCode::kInvalidArgument) << bad;
  }
}

TEST(EventChannelAddress, NobodyThereIsAPeerLost) {
  const auto channel = EventChannel::connect("tcp://127.0.0.1:1", kKey, hello(0), soon());
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, ErrorCode::kPeerLost);
}

TEST_F(EventChannelTest, TheEnvironmentNamesTheChannel) {
  const testing::TemporaryDirectory directory;
  ASSERT_TRUE(
      publish_file(posix_file_ops(), directory.path() / contract::kChannelKeyFile, std::string(kKey) + "\n"));
  ::unsetenv(contract::kEvents);
  auto absent = connect_from_environment(0, 2, "test", soon());
  ASSERT_TRUE(absent);
  EXPECT_EQ(*absent, nullptr);

  ::setenv(contract::kEvents, server_->address().c_str(), 1);
  ::setenv(contract::kRunId, "r-1", 1);
  ::setenv(contract::kRunDir, directory.path().c_str(), 1);
  ::setenv(contract::kAttempt, "one", 1);
  auto bad = connect_from_environment(0, 2, "test", soon());
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("MUSTER_ATTEMPT is 'one'"));

  ::setenv(contract::kAttempt, "1", 1);
  auto channel = connect_from_environment(0, 2, "test", soon());
  ASSERT_TRUE(channel) << channel.error().message;
  ASSERT_NE(*channel, nullptr);
  EXPECT_TRUE(eventually([&] { return count("hello") == 1; }));
  for (const char* name : {contract::kEvents, contract::kRunId, contract::kRunDir, contract::kAttempt})
    ::unsetenv(name);
}

class ImpatientServerTest : public EventChannelTest {
 protected:
  ImpatientServerTest() { hello_timeout_ = milliseconds(50); }
};

TEST_F(ImpatientServerTest, StrangersThatSayNothingAreClosed) {
  const UniqueFd fd = stranger();
  send(fd, "{\"event\":");
  EXPECT_TRUE(closed(fd));
  EXPECT_TRUE(eventually([&] { return server_->counters().refused == 1; }));
}

TEST(EventAddress, IsLoopbackForThisMachine) {
  EXPECT_EQ(*event_address_for({}, ""), "127.0.0.1");
  EXPECT_EQ(*event_address_for({"localhost", "127.0.0.1"}, ""), "127.0.0.1");
  EXPECT_EQ(*event_address_for({"localhost"}, "lo"), "127.0.0.1");
}

TEST(EventAddress, SaysWhatToDoAboutAnUnknownHost) {
  const auto address = event_address_for({"no-such-host.invalid"}, "");
  ASSERT_FALSE(address);
  EXPECT_THAT(address.error().message, HasSubstr("no-such-host.invalid"));
  EXPECT_EQ(*event_address_for({"no-such-host.invalid"}, "lo"), "127.0.0.1");
  const auto no_interface = event_address_for({"no-such-host.invalid"}, "nope0");
  ASSERT_FALSE(no_interface);
  EXPECT_THAT(no_interface.error().message, HasSubstr("lo"));
}

// ---- Requests of the supervisor

TEST_F(EventChannelTest, RequestsReachTheProgramOfARankAndNobodyElse) {
  std::vector<std::string> seen;  // guarded by the server's mutex
  auto exec = connect(
      {{"run", "r-1"}, {"generation", 1}, {"rank", 0}, {"world_size", 2}, {"program", "muster exec"}});
  auto zero = connect(hello(0));
  auto one = connect(hello(1));
  ASSERT_TRUE(exec && zero && one);
  const auto remember = [&](const std::string& who) {
    return [&, who](const json& request) {
      const std::lock_guard lock(mutex_);
      seen.push_back(who + " " + text_field(request, "request"));
    };
  };
  (*exec)->on_request(remember("exec"));
  (*one)->on_request(remember("one"));
  const auto send = [&](int rank, const std::string& id) {
    const std::lock_guard lock(mutex_);
    return server_->send(rank, {{"event", "save"}, {"request", id}});
  };
  EXPECT_TRUE(send(0, "a"));  // before anybody listens there: it waits
  (*zero)->on_request(remember("zero"));
  EXPECT_TRUE(send(0, "b"));
  EXPECT_TRUE(send(1, "c"));
  EXPECT_TRUE(eventually([&] { return seen.size() == 3; }));
  const std::lock_guard lock(mutex_);
  EXPECT_THAT(seen, ::testing::UnorderedElementsAre("zero a", "zero b", "one c"));
}

TEST_F(EventChannelTest, ARequestToARankThatIsNotConnectedIsNotSent) {
  auto one = connect(hello(1));
  ASSERT_TRUE(one);
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(server_->send(0, {{"event", "save"}}));
}

}  // namespace
}  // namespace muster
