// The project's version; muster, agents and trainer compare it (see contract::kProtocolVersion for the wire).
#pragma once

namespace muster {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace muster
