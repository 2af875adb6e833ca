// Which host this process runs on, so that ranks know whether they can meet on the loopback interface.
#pragma once

#include <string>

namespace muster::comm {

// For messages.
std::string host_name();

// Equal for two processes exactly if they share a loopback interface: the boot of the machine and the network
// namespace within it.
std::string host_identity();

}  // namespace muster::comm
