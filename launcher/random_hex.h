// Random bytes from the kernel, as lower-case hex: run ids, keys, nonces. Never fails on Linux once booted;
// blocks only before the kernel's generator is seeded.
#pragma once

#include <cstddef>
#include <string>

namespace muster {

std::string random_hex(std::size_t bytes);

}  // namespace muster
