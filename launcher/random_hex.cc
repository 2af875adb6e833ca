#include "launcher/random_hex.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

namespace muster {

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  for (std::size_t filled = 0; filled < bytes;) {
    const ssize_t got = ::getrandom(raw.data() + filled, bytes - filled, 0);
    if (got < 0 && errno != EINTR) std::abort();  // a kernel without getrandom is older than any we run on
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  std::string hex;
  hex.reserve(2 * bytes);
  for (const unsigned char byte : raw) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace muster
