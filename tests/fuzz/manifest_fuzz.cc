// A manifest is refused, or comes out of a round trip as it went in.
#include "common/checkpoint/manifest.h"
#include "tests/fuzz/fuzz_target.h"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto manifest = checkpoint::parse_manifest(fuzz::as_text(data, bytes));
  if (!manifest) return 0;
  const auto text = checkpoint::manifest_to_text(*manifest);
  fuzz::require(text.has_value());
  const auto again = checkpoint::parse_manifest(*text);
  fuzz::require(again.has_value());
  const auto same_text = checkpoint::manifest_to_text(*again);
  fuzz::require(same_text.has_value() && *same_text == *text);
  return 0;
}
