// The datagram by which a rank shows that it is alive, and tells what it knows of the group's fault. Pure
// encoding; little-endian, at most kBytesMax bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "trainer/comm/liveness.h"

namespace muster::comm {

struct Heartbeat {
  static constexpr std::size_t kTextBytesMax = 512;  // longer error texts are cut
  static constexpr std::size_t kHeaderBytes = 40;
  static constexpr std::size_t kBytesMax = kHeaderBytes + kTextBytesMax;

  std::uint64_t nonce = 0;  // of this group, so that strangers' datagrams are ignored
  std::int32_t generation = 0;
  std::int32_t rank = 0;
  bool leaving = false;  // the last one: this rank ends in good order
  std::uint64_t progress = 0;
  std::optional<Fault> fault;
};

// Returns the bytes used.
std::size_t encode_heartbeat(const Heartbeat& heartbeat, std::span<std::byte, Heartbeat::kBytesMax> out);

// Nothing if the bytes are not a heartbeat of this protocol version.
std::optional<Heartbeat> decode_heartbeat(std::span<const std::byte> bytes);

}  // namespace muster::comm
