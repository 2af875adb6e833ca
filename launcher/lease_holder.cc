#include "launcher/lease_holder.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "common/clock.h"
#include "common/file_ops.h"
#include "common/unique_fd.h"
#include "launcher/lease.h"
#include "launcher/process_identity.h"
#include "launcher/process_tree.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

// True once the process has ended.
bool ended_within(const UniqueFd& process, milliseconds timeout) {
  pollfd entry{process.get(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(timeout.count())) > 0;
}

Status signal_until_ended(const ProcessIdentity& holder, const ProcessIdentity& self,
                          const EndHolderPatience& patience) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, holder.pid, 0)));
  // Looked at again now that the descriptor names one process for good: the pid may be another's by now.
  if (!process || liveness_of(holder, self) != Liveness::kAlive) return {};
  const std::array<std::pair<int, milliseconds>, 3> steps{
      {{SIGTERM, patience.stop}, {SIGTERM, patience.kill}, {SIGKILL, patience.end}}};
  for (const auto& [signal, wait] : steps) {
    if (::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) != 0 && errno != ESRCH) {
      return fail(ErrorCode::kIo, "cannot end pid {}: {}", holder.pid, errno_text(errno));
    }
    if (ended_within(process, wait)) return {};
  }
  return fail(ErrorCode::kUnavailable, "pid {} cannot be ended", holder.pid);
}

}  // namespace

Status end_lease_holder(const RunDirectory& run, const EndHolderPatience& patience) {
  const std::optional<ProcessIdentity> holder = live_lease_holder(run.path);
  MUSTER_ASSIGN(const ProcessIdentity self, this_process_identity());
  if (!holder || liveness_of(*holder, self) != Liveness::kAlive) return {};
  MUSTER_TRY(signal_until_ended(*holder, self, patience));
  // Its guard clears away; what a guard that died with it left is ended here.
  const std::vector<pid_t> left =
      end_processes_of_run(run.run_id, patience.kill, Deadline::after(patience.end));
  if (left.empty()) return {};
  return fail(ErrorCode::kUnavailable, "processes of {} cannot be ended: {}", run.run_id,
              fmt::join(left, ", "));
}

}  // namespace muster
