// A task file is read, and either described by errors or turned into a plan.
#include "launcher/plan.h"
#include "launcher/task_spec.h"
#include "tests/fuzz/fuzz_target.h"

using namespace muster;

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
  } else {
    fuzz::require(!spec.error().message.empty());
  }
  return 0;
}
