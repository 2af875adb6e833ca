// A fuzz target: any bytes in, no crash, no hang, no leak. Built twice: with libFuzzer (scripts/fuzz), and as
// a test that runs the corpus alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

namespace muster::fuzz {

inline std::string_view as_text(const std::uint8_t* data, std::size_t bytes) {
  return {reinterpret_cast<const char*>(data), bytes};
}

// For what must hold whatever the input: a violation ends the program.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace muster::fuzz
