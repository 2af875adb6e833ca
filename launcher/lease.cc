#include "launcher/lease.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/file_ops.h"
#include "launcher/random_hex.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kCandidatePrefix = "candidate-";

fs::path lease_directory(const fs::path& run_directory) { return run_directory / "leases"; }
fs::path lease_file(const fs::path& directory, int number) {
  return directory / (std::to_string(number) + std::string(kSuffix));
}

// N of "N.json"; 0 for any other name.
int number_of(const std::string& name) {
  if (!name.ends_with(kSuffix)) return 0;
  int number = 0;
  const char* end = name.data() + name.size() - kSuffix.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  return error == std::errc() && stop == end && number > 0 ? number : 0;
}

// 0 if there was never a lease. Lists anew each time: a cached name must not decide.
Result<int> highest_number(const fs::path& directory) {
  int highest = 0;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    highest = std::max(highest, number_of(it->path().filename().string()));
  }
  if (error == std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::kNotFound, "{} is gone", directory.string());
  }
  if (error) return fail(ErrorCode::kIo, "cannot list {}: {}", directory.string(), error.message());
  return highest;
}

double modification_time_s(const struct stat& info) {
  return static_cast<double>(info.st_mtim.tv_sec) + static_cast<double>(info.st_mtim.tv_nsec) * 1e-9;
}

struct Holder {
  ProcessIdentity process;
  double idle_s = 0;  // since the last renewal
};

// The holder of lease file `number`, if it is held by somebody alive at `now_s` (the file system's clock).
Result<std::optional<Holder>> live_holder(const fs::path& directory, int number, const ProcessIdentity& self,
                                          double now_s) {
  if (number == 0) return std::nullopt;
  const fs::path path = lease_file(directory, number);
  const auto text = read_text_file(path);
  struct stat info {};
  // Gone means that somebody moved the number on; the link that follows will tell.
  if (!text && text.error().code == ErrorCode::kNotFound) return std::nullopt;
  MUSTER_TRY(text);
  if (text->empty() || ::stat(path.c_str(), &info) != 0) return std::nullopt;
  Holder holder;
  holder.idle_s = now_s - modification_time_s(info);
  const bool expired = holder.idle_s > std::chrono::duration<double>(kLeaseExpiry).count();
  const auto process = process_identity_from_json(json::parse(*text, nullptr, false));
  if (process) holder.process = *process;
  const Liveness liveness = process ? liveness_of(*process, self) : Liveness::kUnknown;
  if (liveness == Liveness::kDead || (liveness == Liveness::kUnknown && expired)) return std::nullopt;
  return holder;
}

// Our entry for the next free number, under a name of its own until it is linked into place.
class Candidate {
 public:
  static Result<Candidate> create(const fs::path& directory, const ProcessIdentity& self) {
    const fs::path path = directory / (std::string(kCandidatePrefix) + random_hex(8));
    const std::string text = process_identity_to_json(self).dump() + "\n";
    MUSTER_TRY(write_new_file(posix_file_ops(), path, as_byte_span(text), 0644));
    Candidate candidate(path);
    candidate.fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (candidate.fd_ < 0) {
      return fail(ErrorCode::kIo, "cannot open {}: {}", path.string(), errno_text(errno));
    }
    return candidate;
  }
  Candidate(Candidate&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {
    other.path_.clear();
  }
  Candidate& operator=(Candidate&&) = delete;
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;
  ~Candidate() {
    if (fd_ >= 0) ::close(fd_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  Result<double> now_s() const {
    if (::futimens(fd_, nullptr) != 0) return fail(ErrorCode::kIo, "cannot stamp {}", path_.string());
    struct stat info {};
    if (::fstat(fd_, &info) != 0) return fail(ErrorCode::kIo, "cannot stat {}", path_.string());
    return modification_time_s(info);
  }

  // False if another process has that number already.
  Result<bool> link_to(const fs::path& target) const {
    if (::link(path_.c_str(), target.c_str()) == 0) return true;
    const int reason = errno;
    // On NFS a lost reply makes the repeated request fail though the first one worked: the link count tells.
    struct stat info {};
    if (::fstat(fd_, &info) == 0 && info.st_nlink == 2) return true;
    if (reason == EEXIST) return false;
    return fail(error_code_of_errno(reason), "cannot link {} to {}: {}", path_.string(), target.string(),
                errno_text(reason));
  }

  int take_fd() { return std::exchange(fd_, -1); }

 private:
  explicit Candidate(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
  int fd_ = -1;
};

// Removes what earlier owners, and takers that died on the way, left. Best effort: leftovers harm nobody.
void remove_leftovers(const fs::path& directory, int own_number, double now_s) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator it(directory, ignored), end; !ignored && it != end; it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    const int number = number_of(name);
    struct stat info {};
    const bool old_candidate =
        name.starts_with(kCandidatePrefix) && ::stat(it->path().c_str(), &info) == 0 &&
        now_s - modification_time_s(info) > std::chrono::duration<double>(kLeaseExpiry).count();
    if ((number > 0 && number < own_number) || old_candidate) leftovers.push_back(it->path());
  }
  for (const fs::path& path : leftovers) ::unlink(path.c_str());
}

}  // namespace

Result<Lease> Lease::acquire(const fs::path& run_directory) {
  std::error_code error;
  if (!fs::is_directory(run_directory, error)) {
    return fail(ErrorCode::kNotFound, "no run directory {}", run_directory.string());
  }
  const fs::path directory = lease_directory(run_directory);
  MUSTER_TRY(make_directories(posix_file_ops(), directory));
  MUSTER_ASSIGN(const ProcessIdentity self, this_process_identity());
  MUSTER_ASSIGN(Candidate candidate, Candidate::create(directory, self));
  for (;;) {  // each round that does not end means that another process moved the number on
    MUSTER_ASSIGN(const int highest, highest_number(directory));
    MUSTER_ASSIGN(const double now_s, candidate.now_s());
    MUSTER_ASSIGN(const auto holder, live_holder(directory, highest, self, now_s));
    if (holder) {
      return fail(ErrorCode::kAlreadyExists,
                  "another muster holds this run: pid {} on host {} (renewed {:.0f} s ago); run directory {}",
                  holder->process.pid, holder->process.host, std::max(holder->idle_s, 0.0),
                  run_directory.string());
    }
    const int number = highest + 1;
    MUSTER_ASSIGN(const bool linked, candidate.link_to(lease_file(directory, number)));
    if (!linked) continue;
    MUSTER_ASSIGN(const int now_highest, highest_number(directory));
    if (now_highest != number) {  // our listing was old: this number had been used and cleaned away
      ::unlink(lease_file(directory, number).c_str());
      continue;
    }
    remove_leftovers(directory, number, now_s);
    return Lease(directory, number, candidate.take_fd());
  }
}

Lease::Lease(Lease&& other) noexcept
    : directory_(std::move(other.directory_)), number_(other.number_), fd_(std::exchange(other.fd_, -1)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    directory_ = std::move(other.directory_);
    number_ = other.number_;
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Lease::~Lease() { release(); }

Status Lease::renew() {
  if (fd_ < 0) return fail(ErrorCode::kInternal, "renewal of a lease that was released");
  // The stamp first: it is on our own file, so it can never undo a takeover.
  if (::futimens(fd_, nullptr) != 0) {
    return fail(ErrorCode::kIo, "cannot renew the lease {}: {}", lease_file(directory_, number_).string(),
                errno_text(errno));
  }
  const auto highest = highest_number(directory_);
  if (!highest && highest.error().code == ErrorCode::kNotFound) {
    return fail(ErrorCode::kAborted, "the run directory was removed: {}", highest.error().message);
  }
  MUSTER_TRY(highest);
  if (*highest != number_) {
    return fail(ErrorCode::kAborted, "another muster took this run over ({})",
                lease_file(directory_, *highest).string());
  }
  return {};
}

void Lease::release() {
  if (fd_ < 0) return;
  // Failure leaves a lease that its owner's death ends.
  [[maybe_unused]] const int ignored = ::ftruncate(fd_, 0);
  ::close(std::exchange(fd_, -1));
}

std::optional<ProcessIdentity> live_lease_holder(const fs::path& run_directory) {
  const fs::path directory = lease_directory(run_directory);
  const auto self = this_process_identity();
  const auto highest = highest_number(directory);
  if (!self || !highest) return std::nullopt;
  const auto holder = live_holder(directory, *highest, *self, unix_time_s());
  if (!holder || !*holder) return std::nullopt;
  return (*holder)->process;
}

}  // namespace muster
