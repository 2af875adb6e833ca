#include "launcher/network_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::HasSubstr;

const std::vector<InterfaceAddress> kTwoNetworks{{"lo", "127.0.0.1", false, true},
                                                 {"eth0", "fd00::7", true, false},
                                                 {"eth0", "192.0.2.7", false, false},
                                                 {"ib0", "10.1.0.7", false, false}};
const std::vector<InterfaceAddress> kOneNetwork{
    {"lo", "127.0.0.1", false, true}, {"eth0", "fd00::7", true, false}, {"eth0", "192.0.2.7", false, false}};

TEST(NetworkAddress, ANamedInterfaceDecides) {
  EXPECT_EQ(choose_address("ib0", kTwoNetworks, {"192.0.2.7"}).value(), "10.1.0.7");
  EXPECT_EQ(choose_address("eth0", kTwoNetworks, {}).value(), "192.0.2.7");  // IPv4 before IPv6
  const auto unknown = choose_address("ib1", kTwoNetworks, {});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, HasSubstr("ib0 10.1.0.7"));
}

TEST(NetworkAddress, TheHostsNameDecidesOtherwise) {
  EXPECT_EQ(choose_address("", kTwoNetworks, {"10.1.0.7", "192.0.2.7"}).value(), "10.1.0.7");
  EXPECT_EQ(choose_address("", kTwoNetworks, {"fd00::7"}).value(), "fd00::7");
}

// Debian's /etc/hosts gives the host's own name a loopback address; DNS may give one that is not here at all.
TEST(NetworkAddress, LoopbackAndForeignAddressesOfTheNameAreLeftOut) {
  EXPECT_EQ(choose_address("", kTwoNetworks, {"127.0.1.1", "203.0.113.9", "192.0.2.7"}).value(), "192.0.2.7");
  EXPECT_EQ(choose_address("", kOneNetwork, {"127.0.1.1"}).value(), "192.0.2.7");
  const auto unclear = choose_address("", kTwoNetworks, {"127.0.1.1", "127.0.0.1"});
  ASSERT_FALSE(unclear);
  EXPECT_THAT(unclear.error().message, HasSubstr("MUSTER_NETWORK_INTERFACE"));
  EXPECT_THAT(unclear.error().message, HasSubstr("192.0.2.7"));
  EXPECT_FALSE(choose_address("", {{"lo", "127.0.0.1", false, true}}, {"127.0.0.1"}));
}

TEST(NetworkAddress, ThisMachineHasALoopback) {
  const auto addresses = local_addresses();
  ASSERT_TRUE(addresses);
  EXPECT_TRUE(std::any_of(addresses->begin(), addresses->end(),
                          [](const InterfaceAddress& a) { return a.loopback && a.address == "127.0.0.1"; }));
}

}  // namespace
}  // namespace muster
