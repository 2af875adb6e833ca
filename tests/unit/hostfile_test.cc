// Host files, Open MPI's format, and where workers go.
#include "launcher/hostfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;

std::vector<Host> parse(std::string_view text) {
  const auto hosts = parse_hostfile(text, "hosts");
  EXPECT_TRUE(hosts) << hosts.error().message;
  return hosts.value_or(std::vector<Host>{});
}

std::string error_of(std::string_view text) {
  const auto hosts = parse_hostfile(text, "hosts");
  EXPECT_FALSE(hosts) << text;
  return hosts ? "" : hosts.error().message;
}

TEST(Hostfile, ReadsNamesSlotsAndComments) {
  EXPECT_THAT(
      parse("# the cluster\n\nnode1 slots=4\n  node2.example.org   slots=2 max_slots=4 # small\r\n10.0.0.7 "
            "slots = 3\nnode-3"),
      ElementsAre(Host{"node1", 4}, Host{"node2.example.org", 2}, Host{"10.0.0.7", 3}, Host{"node-3", 1}));
}

TEST(Hostfile, ARepeatedNameAddsASlotAsInOpenMpi) {
  EXPECT_THAT(parse("a\nb slots=2\na\na\nb\n"), ElementsAre(Host{"a", 3}, Host{"b", 3}));
  EXPECT_THAT(parse("a\na slots=2\n"), ElementsAre(Host{"a", 3}));
}

TEST(Hostfile, NamesEveryErrorWithItsPlace) {
  const std::string settings = "slots=N, max_slots=N";
  const std::string numbers = settings + " with a whole number from 1 to 65536";
  EXPECT_EQ(error_of(""), "hosts:1:1: found no host; allowed: at least one line with a host's name");
  EXPECT_EQ(error_of("# none\n"), "hosts:1:1: found no host; allowed: at least one line with a host's name");
  EXPECT_EQ(error_of("a\nb slot=2\n"), "hosts:2:3: found 'slot=2'; allowed: " + settings);
  EXPECT_EQ(error_of("a b\n"), "hosts:1:3: found 'b'; allowed: " + settings);
  EXPECT_EQ(error_of("a slots=0\n"), "hosts:1:3: found 'slots=0'; allowed: " + numbers);
  EXPECT_EQ(error_of("a slots=-1\n"), "hosts:1:3: found 'slots=-1'; allowed: " + numbers);
  EXPECT_EQ(error_of("a slots=two\n"), "hosts:1:3: found 'slots=two'; allowed: " + numbers);
  EXPECT_EQ(error_of("a slots=\n"), "hosts:1:3: found 'slots='; allowed: " + numbers);
  EXPECT_EQ(error_of("a slots=99999999999\n"), "hosts:1:3: found 'slots=99999999999'; allowed: " + numbers);
  EXPECT_EQ(error_of("a slots=4 max_slots=2\n"),
            "hosts:1:1: found slots=4 with max_slots=2; allowed: slots up to max_slots");
  EXPECT_EQ(error_of("user@a slots=1\n"),
            "hosts:1:1: found 'user@a'; allowed: a host's name or IPv4 address, then " + settings);
  EXPECT_EQ(error_of(" slots=2\n"),
            "hosts:1:2: found 'slots=2'; allowed: a host's name or IPv4 address, then " + settings);
  EXPECT_EQ(error_of("\"\" slots=2\n"),
            "hosts:1:1: found '\"\"'; allowed: a host's name or IPv4 address, then " + settings);
  EXPECT_EQ(error_of("-oProxyCommand=x\n"),
            "hosts:1:1: found '-oProxyCommand=x'; allowed: a host's name or IPv4 address, then " + settings);
  EXPECT_EQ(
      error_of("a slots=1\na slots=2\n"),
      "hosts:2:1: found a second slots= for host 'a'; allowed: one slots= for each host, or the name once "
      "for each slot");
  EXPECT_EQ(error_of("a x\nb y\n"),
            "hosts:1:3: found 'x'; allowed: " + settings + "\nhosts:2:3: found 'y'; allowed: " + settings);
}

TEST(Placement, FillsHostsInOrderWithWholeWorkers) {
  const std::vector<Host> hosts{{"a", 3}, {"b", 1}, {"c", 4}, {"d", 8}};
  const auto placed = place_workers(hosts, 3, 2);
  ASSERT_TRUE(placed);
  EXPECT_THAT(*placed, ElementsAre(Host{"a", 2}, Host{"c", 4}));
}

TEST(Placement, RefusesMoreThanTheHostsHold) {
  const auto placed = place_workers({{"a", 3}, {"b", 3}}, 3, 2);
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(
      placed.error().message,
      "the hosts hold 2 workers of 2 ranks, and the task asks for 3; raise slots= in the host file, add "
      "hosts, or lower num_workers");
}

}  // namespace
}  // namespace muster
