// A task file is read, and either described by errors or turned into plans; one for Slurm becomes a batch
// script, and no text of the file adds a line to it.
#include <sstream>

#include "launcher/plan.h"
#include "launcher/task_spec.h"
#include "slurm/sbatch_script.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/sample_site.h"

using namespace muster;

namespace {

void check_script(const TaskSpec& spec, PlanOptions options) {
  const SiteProfile site = testing::sample_site();
  options.slurm_site = &site;
  const auto plan = make_plan(spec, options);
  if (!plan) return;
  const auto script = slurm::sbatch_script(*plan, {"muster:t-0", plan->checkpoint_root, "/bin/muster"});
  if (!script) return;
  std::istringstream lines(*script);
  std::string line;
  std::getline(lines, line);
  fuzz::require(line == "#!/bin/sh");
  while (std::getline(lines, line) && !line.empty()) fuzz::require(line.starts_with("#SBATCH --"));
  fuzz::require(std::getline(lines, line) && line.starts_with("exec /bin/muster supervise "));
  fuzz::require(!std::getline(lines, line));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  TaskFileContext context;
  context.shown_file = "task.yaml";
  context.file = "/tasks/task.yaml";
  context.home = "/home/user";
  const auto spec = parse_task(fuzz::as_text(data, bytes), context);
  if (spec) {
    PlanOptions options;
    options.trainer_executable = "/bin/muster-train";
    options.default_checkpoint_root = "/state/work";
    static_cast<void>(make_plan(*spec, options));
    check_script(*spec, options);
  } else {
    fuzz::require(!spec.error().message.empty());
  }
  return 0;
}
