#include "launcher/rendezvous.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "common/file_ops.h"
#include "common/run_contract.h"
#include "launcher/random_hex.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::string_view kBegin = "begin-";
constexpr std::string_view kRank = "rank-";
constexpr std::string_view kTable = "table-";
constexpr std::string_view kDebris = "new-";
constexpr std::size_t kNonceBytes = 16;
constexpr milliseconds kFirstPause{1};
constexpr milliseconds kLongestPause{20};
constexpr std::size_t kRanksNamedMax = 8;

std::string answer_name(int rank, std::string_view nonce) {
  return fmt::format("{}{}-{}", kRank, rank, nonce);
}

// Appears whole or not at all. The directory is made anew if the last rank of an earlier meeting is just
// removing it.
Status publish(const fs::path& directory, const std::string& name, const json& content) {
  constexpr int kTriesMax = 10;
  const fs::path path = directory / name;
  const fs::path temporary = directory / (std::string(kDebris) + random_hex(kNonceBytes));
  int reason = 0;
  for (int i = 0; i < kTriesMax; ++i) {
    MUSTER_TRY(make_directories(posix_file_ops(), directory, 0700));
    std::ofstream out(temporary, std::ios::binary);
    out << content.dump();
    out.close();
    if (out && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
    reason = errno;
    ::unlink(temporary.c_str());
    if (reason != ENOENT) break;
  }
  return fail(error_code_of_errno(reason), "cannot write {}: {}", path.string(), errno_text(reason));
}

// Opens the directory anew, which makes network file systems look again. Gone is empty.
Result<std::set<std::string>> list(const fs::path& directory) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    names.insert(it->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::kIo, "cannot list {}: {}", directory.string(), error.message());
  }
  return names;
}

// Null if it is gone or not ours to understand.
json read_json(const fs::path& path) {
  const auto text = read_text_file(path);
  return text ? json::parse(*text, nullptr, false) : json();
}

std::vector<std::string> with_prefix(const std::set<std::string>& names, std::string_view prefix) {
  std::vector<std::string> found;
  for (auto it = names.lower_bound(std::string(prefix)); it != names.end() && it->starts_with(prefix); ++it) {
    found.push_back(*it);
  }
  return found;
}

// Calls `look` with a growing pause until it gives something, or the deadline.
template <class Look>
auto poll_until(Deadline deadline, Look&& look) -> decltype(look()) {
  for (milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    auto found = look();
    if (!found || *found || deadline.expired()) return found;
    std::this_thread::sleep_for(std::min(pause, deadline.remaining()));
  }
}

struct Answers {
  json nonces = json::array();
  std::vector<std::string> nodes;
};

Result<std::optional<Answers>> read_answers(const fs::path& directory, int world_size,
                                            const std::string& begin_nonce) {
  MUSTER_ASSIGN(const std::set<std::string> names, list(directory));
  for (int rank = 1; rank < world_size; ++rank) {
    if (!names.contains(answer_name(rank, begin_nonce))) return std::optional<Answers>();
  }
  Answers answers;
  for (int rank = 1; rank < world_size; ++rank) {
    const json answer = read_json(directory / answer_name(rank, begin_nonce));
    if (!answer.is_object() || !answer.contains("nonce") || !answer.contains("node") ||
        !answer.at("node").is_string()) {
      return std::optional<Answers>();
    }
    answers.nonces.push_back(answer.at("nonce"));
    answers.nodes.push_back(answer.at("node"));
  }
  return std::optional(std::move(answers));
}

std::string missing_ranks(const fs::path& directory, int world_size, const std::string& begin_nonce) {
  const auto names = list(directory);
  std::string text;
  std::size_t count = 0;
  for (int rank = 1; rank < world_size; ++rank) {
    if (names && names->contains(answer_name(rank, begin_nonce))) continue;
    if (++count <= kRanksNamedMax) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  }
  return count > kRanksNamedMax ? fmt::format("{} … ({} ranks)", text, count) : text;
}

Result<RendezvousTable> lead(const fs::path& directory, int world_size, const std::string& node,
                             const MasterChoice& choose_master, Deadline deadline) {
  const std::string nonce = random_hex(kNonceBytes);
  MUSTER_TRY(publish(directory, std::string(kBegin) + nonce, json::object()));
  MUSTER_ASSIGN(std::optional<Answers> answers,
                poll_until(deadline, [&] { return read_answers(directory, world_size, nonce); }));
  if (!answers) {
    return fail(ErrorCode::kDeadlineExceeded,
                "waited in vain for {} of {} ranks in {}: did they start, and do all nodes share this "
                "directory?",
                missing_ranks(directory, world_size, nonce), world_size, directory.string());
  }
  RendezvousTable table;
  table.node_of_rank = std::move(answers->nodes);
  table.node_of_rank.insert(table.node_of_rank.begin(), node);
  MUSTER_ASSIGN(table.master, choose_master(table.node_of_rank));
  MUSTER_TRY(publish(directory, std::string(kTable) + nonce,
                     {{"nonces", answers->nonces},
                      {"nodes", table.node_of_rank},
                      {"address", table.master.address},
                      {"port", table.master.port}}));
  ::unlink((directory / (std::string(kBegin) + nonce)).c_str());
  return table;
}

std::optional<RendezvousTable> believable_table(const json& content, int rank, int world_size,
                                                const std::string& own_nonce) {
  const auto index = static_cast<std::size_t>(rank - 1);
  if (!content.is_object() || !content.contains("nonces") || !content.at("nonces").is_array() ||
      content.at("nonces").size() != static_cast<std::size_t>(world_size - 1) ||
      content.at("nonces")[index] != own_nonce) {
    return std::nullopt;
  }
  return RendezvousTable{{content.at("address"), content.at("port")},
                         content.at("nodes").get<std::vector<std::string>>()};
}

// Answers what is new and looks for the table.
class Follower {
 public:
  Follower(fs::path directory, int rank, int world_size, const std::string& node)
      : directory_(std::move(directory)),
        rank_(rank),
        world_size_(world_size),
        content_({{"nonce", nonce_}, {"node", node}}) {}

  Result<std::optional<RendezvousTable>> look() {
    MUSTER_ASSIGN(const std::set<std::string> names, list(directory_));
    // Tables first: rank 0 may already have begun a next meeting, which is not for this object to answer.
    for (const std::string& name : with_prefix(names, kTable)) {
      auto table = believable_table(read_json(directory_ / name), rank_, world_size_, nonce_);
      if (!table) continue;
      met_nonce_ = name.substr(kTable.size());
      return table;
    }
    for (const std::string& begin : with_prefix(names, kBegin)) {
      const std::string name = answer_name(rank_, begin.substr(kBegin.size()));
      if (!answered_.insert(name).second) continue;
      MUSTER_TRY(publish(directory_, name, content_));
    }
    return std::optional<RendezvousTable>();
  }

  bool saw_rank_0() const { return !answered_.empty(); }

  // Every other rank has answered before the table came, and takes its answer away when it has read it.
  void leave() {
    for (const std::string& name : answered_) ::unlink((directory_ / name).c_str());
    const auto names = list(directory_);
    if (!names) return;
    for (const std::string& answer : with_prefix(*names, kRank)) {
      if (answer.ends_with("-" + met_nonce_)) return;
    }
    // The last one. Only what belongs to this meeting goes: rank 0 may already have begun the next one here.
    ::unlink((directory_ / (std::string(kTable) + met_nonce_)).c_str());
    ::rmdir(directory_.c_str());
  }

 private:
  fs::path directory_;
  int rank_;
  int world_size_;
  std::string nonce_ = random_hex(kNonceBytes);
  json content_;
  std::set<std::string> answered_;
  std::string met_nonce_;  // of the meeting whose table was believed
};

Result<RendezvousTable> follow(const fs::path& directory, int rank, int world_size, const std::string& node,
                               Deadline deadline) {
  Follower follower(directory, rank, world_size, node);
  MUSTER_ASSIGN(std::optional<RendezvousTable> table, poll_until(deadline, [&] { return follower.look(); }));
  if (!table) {
    return fail(ErrorCode::kDeadlineExceeded, "{} in {}: {}",
                follower.saw_rank_0() ? "rank 0 did not gather all ranks" : "rank 0 did not show up",
                directory.string(), "did all ranks start, and do all nodes share this directory?");
  }
  follower.leave();
  return *std::move(table);
}

std::string value_or_empty(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Result<fs::path> private_base(const Environment& environment) {
  const fs::path runtime = value_or_empty(environment, "XDG_RUNTIME_DIR");
  std::error_code error;
  const bool usable = runtime.is_absolute() && fs::is_directory(runtime, error);
  const fs::path base = usable ? runtime / "muster" : fs::path(fmt::format("/tmp/muster-{}", ::geteuid()));
  MUSTER_TRY(make_private_directory(base));
  const fs::path directory = base / "rendezvous";
  MUSTER_TRY(make_private_directory(directory));
  return directory;
}

}  // namespace

Result<RendezvousTable> meet(const fs::path& directory, int rank, int world_size, const std::string& node,
                             const MasterChoice& choose_master, Deadline deadline) {
  if (world_size == 1) {
    RendezvousTable table;
    table.node_of_rank.push_back(node);
    MUSTER_ASSIGN(table.master, choose_master(table.node_of_rank));
    return table;
  }
  return rank == 0 ? lead(directory, world_size, node, choose_master, deadline)
                   : follow(directory, rank, world_size, node, deadline);
}

Result<fs::path> rendezvous_directory(const Environment& environment, const std::string& option,
                                      const RankPlacement& placement) {
  if (!option.empty()) return fs::path(option) / placement.job_key;
  const fs::path run = value_or_empty(environment, contract::kRunDir);
  const std::string attempt = value_or_empty(environment, contract::kAttempt);
  if (!run.empty() && !attempt.empty()) {
    return run / "attempts" / attempt / "rendezvous" / placement.job_key;
  }
  if (placement.single_node) {
    MUSTER_ASSIGN(const fs::path base, private_base(environment));
    return base / placement.job_key;
  }
  return fail(ErrorCode::kInvalidArgument,
              "the ranks are not known to be on one node, and have no directory to meet in: give "
              "--rendezvous-dir DIR (a directory that all nodes share), or set MASTER_ADDR and MASTER_PORT");
}

Status make_private_directory(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(error_code_of_errno(errno), "cannot create directory {}: {}", path.string(),
                errno_text(errno));
  }
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    return fail(ErrorCode::kIo, "cannot stat {}: {}", path.string(), errno_text(errno));
  }
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077u) != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "{} must be a directory of this user (uid {}) with mode 700; it is somebody else's or open "
                "to others. Remove it, or give --rendezvous-dir",
                path.string(), ::geteuid());
  }
  return {};
}

}  // namespace muster
