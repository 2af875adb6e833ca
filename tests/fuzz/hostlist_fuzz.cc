// A host list is refused, or its names survive being compressed.
#include <algorithm>

#include "slurm/hostlist.h"
#include "tests/fuzz/fuzz_target.h"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  auto names = slurm::expand_hostlist(fuzz::as_text(data, bytes));
  if (!names) return 0;
  const auto back = slurm::expand_hostlist(slurm::compress_hostlist(*names));
  fuzz::require(back.has_value());
  std::sort(names->begin(), names->end());
  names->erase(std::unique(names->begin(), names->end()), names->end());
  auto sorted = *back;
  std::sort(sorted.begin(), sorted.end());
  fuzz::require(sorted == *names);
  return 0;
}
