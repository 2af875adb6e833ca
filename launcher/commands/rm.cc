// muster rm: removes a run: its directory with all checkpoints and logs, and its entry in the run index.
#include <cstdio>
#include <system_error>

#include "common/file_ops.h"
#include "common/run_contract.h"
#include "launcher/commands/run_argument.h"
#include "launcher/lease.h"
#include "launcher/lease_holder.h"
#include "launcher/random_hex.h"
#include "launcher/run_index.h"

namespace muster::commands {
namespace {

namespace fs = std::filesystem;

// Aside first, in one step: a removal that breaks off in the middle leaves no half run under the run's name.
Status remove_directory(const RunDirectory& run) {
  FileOps& ops = posix_file_ops();
  const fs::path aside = run.path.parent_path() / fmt::format(".{}.removed-{}", run.run_id, random_hex(4));
  MUSTER_TRY(rename_durably(ops, run.path, aside));
  MUSTER_TRY(forget_run(run.run_id));
  return remove_tree(ops, aside);
}

// Whether the path still is this run's directory; nothing else may be removed.
Result<bool> is_there(const RunDirectory& run) {
  const auto info = read_run_info(run);
  if (info) return info->run_id == run.run_id;
  if (info.error().code == ErrorCode::kNotFound) return false;
  // run.json is damaged, so only the directory's name tells.
  if (info.error().code == ErrorCode::kCorrupt && run.path.filename() == run.run_id) return true;
  return tl::unexpected<Error>(info.error());
}

}  // namespace

int rm(const Arguments& arguments) {
  boost::program_options::options_description options("Options");
  options.add_options()(
      "force",
      "even while another muster holds the run: one of this machine is ended first, one elsewhere ends "
      "its processes when it notices");
  const ParsedLine line = parse_command_line(
      {fmt::format(
           "usage: muster rm RUN [--force]\n\nRemoves a run: its directory with checkpoints and logs, "
           "and its entry in `muster list`.\n{}",
           run_argument_help()),
       options, kRunArgument, 1, kRunArgumentForms},
      arguments);
  if (line.exit_code) return *line.exit_code;
  const NamedRun named = named_run(line);
  if (named.exit_code) return *named.exit_code;
  const RunDirectory& run = named.run;
  const auto there = is_there(run);
  if (!there) return report_run_error(there.error());
  if (!*there) {
    if (const Status forgotten = forget_run(run.run_id); !forgotten)
      return report_run_error(forgotten.error());
    fmt::print("{} was gone already; its entry is removed\n", run.path.string());
    return contract::kMusterOk;
  }
  const bool force = line.values.contains("force");
  if (force) {
    if (const Status ended = end_lease_holder(run); !ended) return report_run_error(ended.error());
  }
  const auto lease = Lease::acquire(run.path);  // while it is removed, nobody may begin to continue it
  // Who removes a run because the disk is full cannot write a lease first.
  const bool unheld_on_a_full_disk =
      !lease && lease.error().code == ErrorCode::kNoSpace && !live_lease_holder(run.path);
  if (!lease && !unheld_on_a_full_disk && !force) return report_run_error(lease.error());
  if (const Status removed = remove_directory(run); !removed) return report_run_error(removed.error());
  fmt::print("removed {}\n", run.path.string());
  return contract::kMusterOk;
}

}  // namespace muster::commands
