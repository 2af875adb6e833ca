#include "trainer/comm/message.h"

#include <string>

namespace muster::comm {
namespace {

class Differences {
 public:
  Differences(int receiver, int sender) : receiver_(receiver), sender_(sender) {}

  template <class T>
  void compare(std::string_view field, const T& expected, const T& received) {
    if (expected == received) return;
    if (!text_.empty()) text_ += "; ";
    text_ +=
        fmt::format("{} is {} on rank {} and {} on rank {}", field, expected, receiver_, received, sender_);
  }
  const std::string& text() const { return text_; }

 private:
  int receiver_;
  int sender_;
  std::string text_;
};

}  // namespace

std::string_view name_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kAllReduceShards:
      return "all_reduce_shards";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kBarrier:
      return "barrier";
  }
  return "unknown collective";
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kByte:
      return "byte";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
  }
  return "unknown type";
}

std::string describe(const MessageHeader& header) {
  return fmt::format("{} of step {}, bucket {}", name_of(header.collective), header.step, header.bucket);
}

Status check_header(const MessageHeader& expected, const MessageHeader& received, int receiver, int sender) {
  if (received.magic != MessageHeader::kMagic || received.protocol != expected.protocol)
    return fail(
        ErrorCode::kMismatch,
        "rank {} sent rank {} a message of another program or version (magic {:#x}, protocol {}; expected "
        "{:#x}, {}): start all ranks from the same build",
        sender, receiver, received.magic, received.protocol, MessageHeader::kMagic, expected.protocol);
  Differences differences(receiver, sender);
  differences.compare("the operation", name_of(expected.collective), name_of(received.collective));
  differences.compare("the generation", expected.generation, received.generation);
  differences.compare("the step", expected.step, received.step);
  differences.compare("the bucket", expected.bucket, received.bucket);
  differences.compare("the type", name_of(expected.dtype), name_of(received.dtype));
  differences.compare("the count", expected.count, received.count);
  differences.compare("the root", expected.root, received.root);
  differences.compare("the number of shards", expected.num_shards, received.num_shards);
  differences.compare("the algorithm", expected.algorithm, received.algorithm);
  differences.compare("the sequence number", expected.sequence, received.sequence);
  differences.compare("the message number", expected.chunk, received.chunk);
  // Follows from the fields above unless a rank uses another segment size.
  if (differences.text().empty())
    differences.compare("the message's length", expected.payload_bytes, received.payload_bytes);
  if (differences.text().empty()) return {};
  return fail(ErrorCode::kMismatch, "ranks {} and {} disagree in {}: {}", receiver, sender,
              describe(expected), differences.text());
}

}  // namespace muster::comm
