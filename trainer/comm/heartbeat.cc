#include "trainer/comm/heartbeat.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace muster::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire format is the native one");

constexpr std::uint32_t kMagic = 0x4248554d;  // "MUHB"
constexpr std::uint16_t kProtocol = 1;
constexpr std::uint8_t kFlagLeaving = 1;
constexpr std::uint8_t kFlagFault = 2;
constexpr std::int32_t kNobody = -1;

class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}
  template <class T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(out_.data() + used_, &value, sizeof(T));
    used_ += sizeof(T);
  }
  void put_text(const std::string& text, std::size_t length) {
    std::memcpy(out_.data() + used_, text.data(), length);
    used_ += length;
  }
  std::size_t used() const { return used_; }

 private:
  std::span<std::byte> out_;
  std::size_t used_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    T value{};
    std::memcpy(&value, bytes_.data() + used_, sizeof(T));
    used_ += sizeof(T);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t used_ = 0;
};

// The longest prefix that fits and does not end within a UTF-8 character.
std::size_t text_length(const std::string& text) {
  std::size_t length = std::min(text.size(), Heartbeat::kTextBytesMax);
  while (length > 0 && length < text.size() && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80)
    --length;
  return length;
}

}  // namespace

std::size_t encode_heartbeat(const Heartbeat& heartbeat, std::span<std::byte, Heartbeat::kBytesMax> out) {
  const bool has_fault = heartbeat.fault.has_value();
  const std::string text = has_fault ? heartbeat.fault->error.message : std::string();
  const std::size_t length = text_length(text);
  Writer writer(out);
  writer.put(kMagic);
  writer.put(kProtocol);
  writer.put(static_cast<std::uint16_t>(length));
  writer.put(heartbeat.nonce);
  writer.put(heartbeat.progress);
  writer.put(heartbeat.generation);
  writer.put(heartbeat.rank);
  writer.put(has_fault ? heartbeat.fault->blamed_rank.value_or(kNobody) : kNobody);
  writer.put(
      static_cast<std::uint8_t>((heartbeat.leaving ? kFlagLeaving : 0) | (has_fault ? kFlagFault : 0)));
  writer.put(static_cast<std::uint8_t>(has_fault ? heartbeat.fault->error.code : ErrorCode::kInternal));
  writer.put(std::uint16_t{0});
  static_assert(Heartbeat::kHeaderBytes == 4 + 2 + 2 + 8 + 8 + 4 + 4 + 4 + 1 + 1 + 2);
  writer.put_text(text, length);
  return writer.used();
}

std::optional<Heartbeat> decode_heartbeat(std::span<const std::byte> bytes) {
  if (bytes.size() < Heartbeat::kHeaderBytes) return std::nullopt;
  Reader reader(bytes);
  if (reader.get<std::uint32_t>() != kMagic || reader.get<std::uint16_t>() != kProtocol) return std::nullopt;
  const std::size_t length = reader.get<std::uint16_t>();
  if (length > Heartbeat::kTextBytesMax || bytes.size() != Heartbeat::kHeaderBytes + length)
    return std::nullopt;
  Heartbeat heartbeat;
  heartbeat.nonce = reader.get<std::uint64_t>();
  heartbeat.progress = reader.get<std::uint64_t>();
  heartbeat.generation = reader.get<std::int32_t>();
  heartbeat.rank = reader.get<std::int32_t>();
  const auto blamed = reader.get<std::int32_t>();
  const auto flags = reader.get<std::uint8_t>();
  const auto code = reader.get<std::uint8_t>();
  heartbeat.leaving = (flags & kFlagLeaving) != 0;
  if ((flags & kFlagFault) == 0) return heartbeat;
  if (code > static_cast<std::uint8_t>(ErrorCode::kInternal)) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(bytes.data() + Heartbeat::kHeaderBytes);
  heartbeat.fault = Fault{{static_cast<ErrorCode>(code), std::string(text, length)},
                          blamed == kNobody ? std::nullopt : std::optional<int>(blamed)};
  return heartbeat;
}

}  // namespace muster::comm
