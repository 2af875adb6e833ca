// The parts of `muster exec` that need no launcher: environment files, program search, port reservations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/environment_file.h"
#include "launcher/port_reservation.h"
#include "launcher/program_search.h"
#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::TemporaryDirectory;

TEST(EnvironmentFile, ValuesComeThroughExactly) {
  TemporaryDirectory directory;
  const std::string odd = "a,b='c' \"d\"\n\te=$f \\ \xC3\xA9";
  std::ofstream(directory.path() / "e") << nlohmann::json{{"variables", {{"ODD", odd}, {"EMPTY", ""}}}};
  EXPECT_THAT(read_environment_file(directory.path() / "e").value(),
              ElementsAre(Pair("EMPTY", ""), Pair("ODD", odd)));
}

TEST(EnvironmentFile, WhatNoEnvironmentCanHoldIsRefused) {
  TemporaryDirectory directory;
  const fs::path path = directory.path() / "e";
  for (const char* bad : {"", "[]", "{}", R"({"variables": []})", R"({"variables": {"A": 1}})",
                          R"({"variables": {"": "x"}})", R"({"variables": {"A=B": "x"}})",
                          R"({"variables": {"A": "x\u0000y"}})", R"({"variables": {"A": "x"})"}) {
    std::ofstream(path) << bad;
    const auto variables = read_environment_file(path);
    ASSERT_FALSE(variables) << bad;
    EXPECT_EQ(variables.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(variables.error().message, HasSubstr(path.string()));
  }
  EXPECT_EQ(read_environment_file(directory.path() / "none").error().code, ErrorCode::kNotFound);
}

void write_file(const fs::path& path, const std::string& text, bool executable) {
  std::ofstream(path) << text;
  fs::permissions(path, executable ? fs::perms::owner_all : fs::perms::owner_read | fs::perms::owner_write);
}

TEST(ProgramSearch, FindsWhatAShellWouldFind) {
  TemporaryDirectory directory;
  const fs::path first = directory.path() / "first";
  const fs::path second = directory.path() / "second";
  fs::create_directories(first / "folder");
  fs::create_directories(second / "folder");
  write_file(first / "tool", "data", false);
  write_file(second / "tool", "#!/bin/sh\n", true);
  const std::string path = first.string() + ":" + second.string();
  EXPECT_EQ(find_program("tool", path).value(), (second / "tool").string());
  EXPECT_EQ(find_program((second / "tool").string(), "").value(), (second / "tool").string());

  EXPECT_EQ(find_program("tool", first.string()).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(find_program("folder", path).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(find_program((first / "tool").string(), path).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(find_program("absent", path).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(find_program((first / "absent").string(), path).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(find_program("", path).error().code, ErrorCode::kNotFound);
}

TEST(ProgramSearch, TellsWhyAFileCannotBeExecuted) {
  TemporaryDirectory directory;
  const fs::path script = directory.path() / "script";
  write_file(script, "echo hello\n", true);
  EXPECT_THAT(explain_exec_failure(script, ENOEXEC), HasSubstr("lacks a first line like #!/bin/sh"));
  write_file(script, "#!/no/such/python\n", true);
  EXPECT_THAT(explain_exec_failure(script, ENOENT), HasSubstr("#!/no/such/python"));
  EXPECT_THAT(explain_exec_failure(script, EACCES), HasSubstr("Permission denied"));
}

bool can_listen_on(std::uint16_t port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 &&
         ::listen(socket.get(), 1) == 0;
}

TEST(PortReservation, HoldsThePortUntilItIsHandedOver) {
  auto reservation = PortReservation::make();
  ASSERT_TRUE(reservation) << reservation.error().message;
  ASSERT_GT(reservation->port(), 0);
  EXPECT_FALSE(can_listen_on(reservation->port()));
  reservation->hand_over_at_exec();
  EXPECT_TRUE(can_listen_on(reservation->port()));
}

TEST(PortReservation, NoTwoHaveTheSamePort) {
  std::set<std::uint16_t> ports;
  std::vector<PortReservation> reservations;
  for (int i = 0; i < 200; ++i) {
    auto reservation = PortReservation::make();
    ASSERT_TRUE(reservation) << reservation.error().message;
    EXPECT_TRUE(ports.insert(reservation->port()).second) << reservation->port();
    reservations.push_back(*std::move(reservation));
    // Free for the kernel to give out again, but still claimed for the program that is to come.
    reservations.back().hand_over_at_exec();
  }
}

}  // namespace
}  // namespace muster
