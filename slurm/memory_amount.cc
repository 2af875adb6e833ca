#include "slurm/memory_amount.h"

#include <cctype>
#include <charconv>
#include <limits>

namespace muster::slurm {

std::optional<MemoryAmount> parse_memory_amount(std::string_view text) {
  constexpr std::string_view kUnits = "KMGTP";
  constexpr std::size_t kFractionDigitsMax = 9;
  constexpr auto kBytesMax = std::numeric_limits<std::uint64_t>::max();
  MemoryAmount amount;
  if (text.size() > 1 && (text.back() == 'c' || text.back() == 'n')) {
    amount.per = text.back() == 'c' ? MemoryAmount::Per::kCpu : MemoryAmount::Per::kNode;
    text.remove_suffix(1);
  }
  unsigned exponent = 2;
  if (!text.empty() && std::isalpha(static_cast<unsigned char>(text.back())) != 0) {
    const auto unit = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
    if (unit == std::string_view::npos) return {};
    exponent = static_cast<unsigned>(unit) + 1;
    text.remove_suffix(1);
  }
  const std::uint64_t unit_bytes = std::uint64_t{1} << (10 * exponent);
  const char* const end = text.data() + text.size();
  std::uint64_t whole = 0;
  auto [next, error] = std::from_chars(text.data(), end, whole);
  if (error != std::errc{} || whole > kBytesMax / unit_bytes) return {};
  amount.bytes = whole * unit_bytes;
  if (next == end) return amount;
  if (*next != '.') return {};
  std::uint64_t fraction = 0;
  std::uint64_t scale = 1;
  std::size_t digits = 0;
  for (++next; next != end; ++next, ++digits) {
    if (std::isdigit(static_cast<unsigned char>(*next)) == 0) return {};
    if (digits >= kFractionDigitsMax) continue;
    fraction = fraction * 10 + static_cast<std::uint64_t>(*next - '0');
    scale *= 10;
  }
  if (digits == 0) return {};
  const auto fraction_bytes =
      static_cast<std::uint64_t>(static_cast<long double>(fraction) / static_cast<long double>(scale) *
                                 static_cast<long double>(unit_bytes));
  if (amount.bytes > kBytesMax - fraction_bytes) return {};
  amount.bytes += fraction_bytes;
  return amount;
}

}  // namespace muster::slurm
