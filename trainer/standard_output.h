// What muster-train prints. A result that did not arrive must not look like one that did (a full disk, a
// reader that is gone), and no failure of stdio is an exception.
#pragma once

#include <string_view>

#include "common/status.h"

namespace muster {

// Everything, flushed: kIo if it could not all be written. Blocks on who reads.
Status print_out(std::string_view text);

// The same for a program that has nothing else to do: tells standard error of a failure. Returns the exit
// code.
int print_result(std::string_view text);

}  // namespace muster
