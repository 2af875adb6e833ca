// An IDX file, gzip or plain, is refused or gives exactly the values that its shape says.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "common/unique_fd.h"
#include "tests/fuzz/fuzz_target.h"
#include "trainer/data/idx_file.h"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const UniqueFd file(::memfd_create("idx", MFD_CLOEXEC));
  fuzz::require(file && ::write(file.get(), data, bytes) == static_cast<ssize_t>(bytes));
  const auto array = data::read_idx_file("/proc/self/fd/" + std::to_string(file.get()));
  if (!array) return 0;
  std::size_t values = 1;
  for (const std::int64_t extent : array->shape) values *= static_cast<std::size_t>(extent);
  fuzz::require(values == array->values.size());
  return 0;
}
