// The header that every message between ranks carries, and its comparison with what the receiver expects.
// Ranks run the same program on the same kind of machine, so the header travels in native byte order.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/status.h"
#include "trainer/comm/communicator.h"

namespace muster::comm {

enum class Collective : std::uint8_t {
  kAllReduce = 1,
  kAllReduceShards = 2,
  kReduceScatter = 3,
  kAllGather = 4,
  kBroadcast = 5,
  kBarrier = 6
};

std::string_view name_of(Collective collective);
std::string_view name_of(DType dtype);

struct MessageHeader {
  static constexpr std::uint32_t kMagic = 0x5453554d;  // "MUST"
  static constexpr std::uint16_t kProtocol = 1;

  std::uint32_t magic = kMagic;
  std::uint16_t protocol = kProtocol;
  Collective collective = Collective::kBarrier;
  DType dtype = DType::kByte;
  std::int32_t generation = 0;
  std::int32_t bucket = 0;
  std::int64_t step = 0;
  std::uint64_t count = 0;      // elements of the whole collective
  std::int32_t root = -1;       // broadcast only
  std::int32_t num_shards = 0;  // all_reduce_shards only
  std::uint64_t sequence = 0;   // how many collectives this communicator had started before
  std::uint64_t payload_bytes = 0;
  std::uint32_t chunk = 0;  // which message of this collective, counted for each (source, destination)
  std::uint32_t algorithm = 0;
};
static_assert(sizeof(MessageHeader) == 64);

// kMismatch, naming both ranks and each field that differs with both values.
Status check_header(const MessageHeader& expected, const MessageHeader& received, int receiver, int sender);

// "all_reduce of step 7, bucket 2"
std::string describe(const MessageHeader& header);

}  // namespace muster::comm
