// A site profile is refused with a place, or its settings can be shown.
#include "launcher/site_profile.h"

#include "launcher/site_profile_format.h"
#include "tests/fuzz/fuzz_target.h"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(fuzz::as_text(data, bytes));
  const auto profile = parse_site_profile({{"site.yaml", text}, {"again.yaml", text}});
  if (profile) {
    fuzz::require(!site_profile_to_text(*profile, {"site.yaml"}).empty());
  } else {
    fuzz::require(profile.error().message.starts_with("site.yaml:") ||
                  profile.error().message.starts_with("again.yaml:"));
  }
  return 0;
}
