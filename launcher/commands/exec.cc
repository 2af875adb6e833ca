// muster exec: gives a rank its environment and becomes the program. Nothing stays in between: the program's
// exit code, signals and standard streams are its own.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/event_channel.h"
#include "common/run_contract.h"
#include "launcher/commands/command_line.h"
#include "launcher/environment_file.h"
#include "launcher/network_address.h"
#include "launcher/port_reservation.h"
#include "launcher/process_identity.h"
#include "launcher/program_search.h"
#include "launcher/rank_environment.h"
#include "launcher/rendezvous.h"
#include "launcher/tcp_rendezvous.h"
#include "slurm/hostlist.h"

namespace muster::commands {
namespace {

namespace po = boost::program_options;
using std::chrono::seconds;

constexpr int kRendezvousTimeoutS = 120;
constexpr seconds kEventsTimeout{5};
constexpr const char* kUsage =
    "usage: muster exec [OPTIONS] -- COMMAND [ARGUMENT...]\n\n"
    "Gives a rank that mpirun or srun started RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK,\n"
    "MASTER_ADDR and MASTER_PORT, and becomes COMMAND. See docs/run_contract.md.";

Environment current_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

void set_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

// Under muster no rank may outlive its launcher (mpirun or its daemon): the kernel sees to it.
void die_with_parent() {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::raise(SIGKILL);  // it died before the kernel was told
}

bool is_set(const Environment& environment, const char* name) { return environment.contains(name); }

// MASTER_ADDR and MASTER_PORT that the user chose: respected as they are.
Result<std::optional<MasterAddress>> users_master(const Environment& environment) {
  const bool has_address = is_set(environment, contract::kMasterAddr);
  const bool has_port = is_set(environment, contract::kMasterPort);
  if (!has_address && !has_port) return std::optional<MasterAddress>();
  if (!has_address || !has_port) {
    return fail(ErrorCode::kInvalidArgument, "{} is set without {}: set both, or neither",
                has_address ? contract::kMasterAddr : contract::kMasterPort,
                has_address ? contract::kMasterPort : contract::kMasterAddr);
  }
  if (environment.find(contract::kMasterAddr)->second.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "{} is set and empty; allowed: rank 0's host name or address, or neither it nor {}",
                contract::kMasterAddr, contract::kMasterPort);
  }
  const std::string& text = environment.find(contract::kMasterPort)->second;
  MasterAddress master{environment.find(contract::kMasterAddr)->second, 0};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), master.port);
  if (error != std::errc() || stop != text.data() + text.size() || master.port == 0) {
    return fail(ErrorCode::kInvalidArgument, "MASTER_PORT='{}' is not a port number from 1 to 65535", text);
  }
  return master;
}

std::string own_node(const RankPlacement& placement) {
  if (!placement.node_key.empty()) return placement.node_key;
  const auto self = this_process_identity();
  return self ? self->host + " " + self->boot_id : host_name();
}

Result<std::string> address_for(const Environment& environment,
                                const std::vector<std::string>& node_of_rank) {
  if (std::set<std::string>(node_of_rank.begin(), node_of_rank.end()).size() == 1) return "127.0.0.1";
  const auto interface = environment.find(contract::kNetworkInterface);
  MUSTER_ASSIGN(const auto local, local_addresses());
  return choose_address(interface == environment.end() ? "" : interface->second, local,
                        addresses_of_own_name(host_name()));
}

struct Rank {
  RankPlacement placement;
  MasterAddress master;
  std::optional<PortReservation> port;  // rank 0's, until exec
};

// Where ranks on several nodes meet that share no directory: on rank 0's host, by their launcher's word.
std::vector<std::string> hosts_of_rank_0(const Environment& environment, LauncherKind launcher) {
  if (launcher == LauncherKind::kOpenMpi) return mpirun_hosts(environment);
  if (launcher != LauncherKind::kSlurm) return {};
  const auto list = environment.find("SLURM_STEP_NODELIST");
  if (list == environment.end()) return {};
  const auto names = slurm::expand_hostlist(list->second);
  return names && !names->empty() ? std::vector{names->front()} : std::vector<std::string>{};
}

// With the user's master nothing needs agreement but what the launcher does not tell, and only if there is a
// place to agree in.
bool must_meet(const RankPlacement& placement, bool has_master, bool has_place) {
  if (!has_master) return true;
  const bool complete = placement.local_rank && placement.local_world_size && placement.node_rank;
  return !complete && has_place;
}

Result<Rank> become_rank(const Environment& environment, const po::variables_map& options) {
  Rank rank;
  MUSTER_ASSIGN(rank.placement, find_placement(environment, options.contains("standalone")));
  MUSTER_ASSIGN(const std::optional<MasterAddress> users, users_master(environment));
  if (users) rank.master = *users;
  std::filesystem::path directory;
  MeetingPoint point{rank.placement.job_key, {}};
  if (rank.placement.world_size > 1) {
    const auto found =
        rendezvous_directory(environment, options["rendezvous-dir"].as<std::string>(), rank.placement);
    if (found) {
      directory = *found;
    } else {
      point.hosts = hosts_of_rank_0(environment, rank.placement.launcher);
      if (point.hosts.empty() && !users) return tl::unexpected<Error>(found.error());
    }
  }
  if (!must_meet(rank.placement, users.has_value(), !directory.empty() || !point.hosts.empty())) return rank;
  const MasterChoice choose_master = [&](const std::vector<std::string>& nodes) -> Result<MasterAddress> {
    if (users) return *users;
    MUSTER_ASSIGN(std::string address, address_for(environment, nodes));
    MUSTER_ASSIGN(PortReservation port, PortReservation::make());
    rank.port.emplace(std::move(port));
    return MasterAddress{std::move(address), rank.port->port()};
  };
  const Deadline deadline = Deadline::after(seconds(options["rendezvous-timeout"].as<int>()));
  const int world_size = rank.placement.world_size;
  const std::string node = own_node(rank.placement);
  MUSTER_ASSIGN(RendezvousTable table,
                point.hosts.empty()
                    ? meet(directory, rank.placement.rank, world_size, node, choose_master, deadline)
                    : meet_at(point, rank.placement.rank, world_size, node, choose_master, deadline));
  if (!users) rank.master = std::move(table.master);
  MUSTER_TRY(complete_placement(rank.placement, table.node_of_rank));
  return rank;
}

// Tells the supervisor. Only a supervisor that refuses this rank ends it; one that cannot be reached does
// not.
Status announce(const Rank& rank, const Arguments& command) {
  auto channel = connect_from_environment(rank.placement.rank, rank.placement.world_size, "muster exec",
                                          Deadline::after(kEventsTimeout));
  if (!channel) {
    if (channel.error().code == ErrorCode::kMismatch) return tl::unexpected<Error>(channel.error());
    fmt::print(stderr, "muster: rank {} goes on without a supervisor: {}\n", rank.placement.rank,
               channel.error().message);
    return {};
  }
  if (!*channel) return {};
  nlohmann::json event{{"event", contract::event::kExec},
                       {"argv", command},
                       {"pid", ::getpid()},
                       {"launcher", launcher_name(rank.placement.launcher)},
                       {"master_addr", rank.master.address},
                       {"master_port", rank.master.port}};
  for (const auto& [name, value] : contract_variables(rank.placement)) event["environment"][name] = value;
  (*channel)->emit(event);
  // The line is in the kernel's hands or the supervisor is gone, which is not this program's concern.
  static_cast<void>((*channel)->flush(Deadline::after(kEventsTimeout)));
  return {};
}

int give_up(const Error& error, int exit_code) {
  fmt::print(stderr, "muster: exec: {}\n", error.message);
  return exit_code;
}

// What the supervisor should make of it: configuration errors recur, everything else may pass.
int rank_exit_code(const Error& error) {
  const bool configuration = error.code == ErrorCode::kInvalidArgument ||
                             error.code == ErrorCode::kMismatch || error.code == ErrorCode::kNotFound;
  return configuration ? contract::kExitDoNotRetry : contract::kExitRetry;
}

int replace_process(const std::string& file, const Arguments& command) {
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::fflush(nullptr);
  ::execve(file.c_str(), argv.data(), environ);
  const int reason = errno;
  return give_up({ErrorCode::kInvalidArgument, explain_exec_failure(file, reason)}, kExitNotExecutable);
}

Status apply_environment_file(const std::string& path) {
  if (path.empty()) return {};
  MUSTER_ASSIGN(const EnvironmentVariables variables, read_environment_file(path));
  // Under muster the file alone says whether the user chose a master: an inherited one is another job's.
  if (std::getenv(contract::kRunDir) != nullptr ||
      std::any_of(variables.begin(), variables.end(),
                  [](const auto& variable) { return variable.first == contract::kRunDir; })) {
    ::unsetenv(contract::kMasterAddr);
    ::unsetenv(contract::kMasterPort);
  }
  for (const auto& [name, value] : variables) set_variable(name, value);
  return {};
}

}  // namespace

int exec(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()("environment", po::value<std::string>()->default_value("")->value_name("FILE"),
                        R"(also set the variables of a JSON file {"variables": {NAME: VALUE}})")(
      "rendezvous-dir", po::value<std::string>()->default_value("")->value_name("DIR"),
      "a directory that all nodes share, for the ranks to find each other in")(
      "rendezvous-timeout", po::value<int>()->default_value(kRendezvousTimeoutS)->value_name("SECONDS"),
      "how long to wait for the other ranks")(
      "standalone", "be rank 0 of 1 if neither mpirun nor srun started this process");
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  constexpr const char* kNoCommand = "no command: write it after --, as in `muster exec -- python3 train.py`";
  if (separator == arguments.end() && !arguments.empty() && !arguments.back().starts_with('-')) {
    return give_up({ErrorCode::kInvalidArgument, kNoCommand}, contract::kMusterUsage);
  }
  const ParsedLine line = parse_command_line({kUsage, options, ""}, Arguments(arguments.begin(), separator));
  if (line.exit_code) return *line.exit_code;
  if (separator == arguments.end() || separator + 1 == arguments.end()) {
    return give_up({ErrorCode::kInvalidArgument, kNoCommand}, contract::kMusterUsage);
  }
  const Arguments command(separator + 1, arguments.end());
  if (const Status applied = apply_environment_file(line.values["environment"].as<std::string>()); !applied) {
    return give_up(applied.error(), rank_exit_code(applied.error()));
  }
  const Environment environment = current_environment();
  if (is_set(environment, contract::kRunDir)) die_with_parent();
  const auto path = environment.find("PATH");
  const auto file = find_program(command.front(), path == environment.end() ? "/usr/bin:/bin" : path->second);
  if (!file) {
    return give_up(file.error(),
                   file.error().code == ErrorCode::kNotFound ? kExitNotFound : kExitNotExecutable);
  }
  auto rank = become_rank(environment, line.values);
  if (!rank) return give_up(rank.error(), rank_exit_code(rank.error()));
  for (const auto& [name, value] : contract_variables(rank->placement)) set_variable(name, value);
  set_variable(contract::kMasterAddr, rank->master.address);
  set_variable(contract::kMasterPort, std::to_string(rank->master.port));
  if (const Status announced = announce(*rank, command); !announced) {
    return give_up(announced.error(), rank_exit_code(announced.error()));
  }
  if (rank->port) rank->port->hand_over_at_exec();
  return replace_process(*file, command);
}

}  // namespace muster::commands
