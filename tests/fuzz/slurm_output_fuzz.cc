// Whatever Slurm's commands print, the profile that is made of it can be read.
#include "launcher/site_profile.h"
#include "slurm/job_state.h"
#include "slurm/memory_amount.h"
#include "slurm/site_detection.h"
#include "slurm/wait_reason.h"
#include "tests/fuzz/fuzz_target.h"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(fuzz::as_text(data, bytes));
  slurm::SiteOutputs outputs;
  for (const slurm::SiteCommand& command : slurm::site_commands("a")) (outputs.*command.output).text = text;
  const slurm::DetectedSite site = slurm::detect_site(outputs);
  fuzz::require(parse_site_profile({{"site.yaml", site.yaml}}).has_value());
  slurm::parse_job_state(text);
  slurm::parse_memory_amount(text);
  slurm::explain_wait(text);
  return 0;
}
