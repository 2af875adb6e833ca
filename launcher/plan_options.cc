#include "launcher/plan_options.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "common/checkpoint/find_checkpoint.h"
#include "launcher/run_index.h"

namespace muster {

namespace fs = std::filesystem;

Result<PlanOptions> plan_options_here(const PlanRequest& request, const TaskSpec& spec) {
  PlanOptions options;
  if (!request.hostfile.empty()) {
    MUSTER_ASSIGN(options.hosts, load_hostfile(request.hostfile));
  }
  options.rsh_agent = request.rsh_agent;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail(ErrorCode::kIo, "cannot read /proc/self/exe: {}", error.message());
  const fs::path trainer = self.parent_path() / "muster-train";
  if (access(trainer.c_str(), X_OK) == 0) options.trainer_executable = trainer.string();
  options.default_checkpoint_root = (state_directory() / "work").string();
  options.run_as_root = geteuid() == 0;
  if (spec.trainer && !spec.trainer->init_from.empty()) {
    const auto found = checkpoint::find_checkpoint(spec.trainer->init_from, checkpoint::Verify::kManifest);
    if (found) options.init_from_sha256 = found->manifest_sha256;
  }
  return options;
}

}  // namespace muster
