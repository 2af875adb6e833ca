#include "launcher/run_selection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "common/checkpoint/layout.h"
#include "common/clock.h"
#include "common/journal.h"
#include "common/unique_fd.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kLockWait{10};

// Held while a run is looked for and made, so that two first starts of a task do not make two runs. Where the
// file system knows no such lock the run's lease alone has to do.
UniqueFd lock_checkpoint_root(const std::string& root) {
  UniqueFd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Deadline deadline = Deadline::after(kLockWait);
  while (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR) &&
         !deadline.expired()) {
    ::poll(nullptr, 0, 20);
  }
  return fd;
}

Result<RunHistory> history_of(const RunDirectory& run) {
  auto journal = read_journal(run.journal());
  if (!journal && journal.error().code == ErrorCode::kNotFound) return RunHistory{};
  MUSTER_TRY(journal);
  return read_history(journal->events);
}

std::string difference_text(const std::vector<FingerprintDifference>& differences) {
  std::string text;
  for (const FingerprintDifference& difference : differences) {
    text += fmt::format("\n  {}: {} → {}", difference.key,
                        difference.before.empty() ? "(not set)" : difference.before,
                        difference.now.empty() ? "(not set)" : difference.now);
  }
  return text;
}

// kAlreadyExists means one thing to our caller: that somebody holds the lease.
tl::unexpected<Error> not_the_lease(Error error) {
  if (error.code == ErrorCode::kAlreadyExists) error.code = ErrorCode::kIo;
  return tl::unexpected<Error>(std::move(error));
}

Result<SelectedRun> make_run(const Plan& plan, const std::string& task_text) {
  Result<RunDirectory> run = create_run(plan, task_text);
  if (!run) return not_the_lease(std::move(run).error());
  MUSTER_ASSIGN(Lease lease, Lease::acquire(run->path));
  return SelectedRun{*std::move(run), std::move(lease), {}, true, {}};
}

}  // namespace

Result<bool> continues_from_checkpoint(const Plan& plan, const RunSelectionOptions& options) {
  if (options.start_new) return false;
  MUSTER_ASSIGN(const std::optional<RunDirectory> found, find_run(plan));
  if (!found) return false;
  const auto steps = checkpoint::step_directories(found->checkpoints());
  if (!steps && steps.error().code == ErrorCode::kNotFound) return false;
  MUSTER_TRY(steps);
  return std::any_of(steps->begin(), steps->end(),
                     [](const checkpoint::StepDirectory& step) { return step.committed; });
}

Result<SelectedRun> select_run(const Plan& plan, const std::string& task_text,
                               const RunSelectionOptions& options) {
  if (Status made = make_directories(posix_file_ops(), plan.checkpoint_root); !made) {
    return not_the_lease(std::move(made).error());
  }
  const UniqueFd lock = lock_checkpoint_root(plan.checkpoint_root);
  if (options.start_new) return make_run(plan, task_text);
  MUSTER_ASSIGN(std::optional<RunDirectory> found, find_run(plan));
  if (!found) return make_run(plan, task_text);

  MUSTER_ASSIGN(Lease lease, Lease::acquire(found->path));
  MUSTER_ASSIGN(const RunInfo info, read_run_info(*found));
  auto differences = fingerprint_differences(info.fingerprint, plan.result_fingerprint);
  if (!differences.empty() && !options.accept_changes) {
    return fail(ErrorCode::kMismatch,
                "the task differs from that of run {} in what decides the result:{}\n"
                "use --new to start another run, or --accept-changes to go on with this one",
                found->run_id, difference_text(differences));
  }
  MUSTER_ASSIGN(RunHistory history, history_of(*found));
  return SelectedRun{*std::move(found), std::move(lease), std::move(history), false, std::move(differences)};
}

}  // namespace muster
