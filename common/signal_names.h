// Names of signals: SIGUSR1, or USR1 for short. Numbers differ between systems, so names travel.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace muster {

// kInvalidArgument, listing the names, for one that is not known.
Result<int> parse_signal_name(std::string_view name);

// "SIGTERM"; "signal 64" for a number without a name.
std::string signal_name(int number);

}  // namespace muster
