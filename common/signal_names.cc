#include "common/signal_names.h"

#include <csignal>
#include <cstring>

namespace muster {

Result<int> parse_signal_name(std::string_view name) {
  const std::string_view abbreviation = name.substr(name.starts_with("SIG") ? 3 : 0);
  std::string known;
  for (int number = 1; number < NSIG; ++number) {
    const char* candidate = ::sigabbrev_np(number);
    if (candidate == nullptr) continue;
    if (abbreviation == candidate) return number;
    known += fmt::format("{}SIG{}", known.empty() ? "" : ", ", candidate);
  }
  return fail(ErrorCode::kInvalidArgument, "'{}' is no signal; allowed: {}", name, known);
}

std::string signal_name(int number) {
  const char* abbreviation = ::sigabbrev_np(number);
  return abbreviation == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", abbreviation);
}

}  // namespace muster
