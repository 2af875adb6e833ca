#include "launcher/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <vector>

namespace muster {

namespace {

using Milliseconds = std::chrono::milliseconds;

struct DurationUnit {
  std::string_view suffix;
  std::int64_t ms;
};
constexpr std::array<DurationUnit, 5> kDurationUnits{
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

// Long enough for any job, small enough that sums cannot overflow.
constexpr std::int64_t kDurationMaxMs = 3'650LL * 86'400'000;

std::optional<std::int64_t> take_digits(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<Milliseconds> within_limits(std::int64_t count, std::int64_t unit_ms, std::int64_t so_far_ms) {
  if (count > kDurationMaxMs / unit_ms) return std::nullopt;
  const std::int64_t total_ms = so_far_ms + count * unit_ms;
  if (total_ms > kDurationMaxMs) return std::nullopt;
  return Milliseconds(total_ms);
}

std::optional<Milliseconds> parse_with_units(std::string_view text) {
  Milliseconds total{0};
  std::size_t next_unit = 0;
  while (!text.empty()) {
    const auto count = take_digits(text);
    if (!count) return std::nullopt;
    const std::string_view suffix = text.substr(0, text.find_first_of("0123456789"));
    while (next_unit < kDurationUnits.size() && kDurationUnits[next_unit].suffix != suffix) ++next_unit;
    if (next_unit == kDurationUnits.size()) return std::nullopt;
    const auto sum = within_limits(*count, kDurationUnits[next_unit].ms, total.count());
    if (!sum) return std::nullopt;
    total = *sum;
    ++next_unit;
    text.remove_prefix(suffix.size());
  }
  return total;
}

std::optional<std::vector<std::int64_t>> split_numbers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  while (true) {
    if (text.empty()) return std::nullopt;
    const auto number = take_digits(text);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    if (text.empty()) return numbers;
    if (text.front() != ':') return std::nullopt;
    text.remove_prefix(1);
  }
}

// Field i of the clock counts units_ms[i]; only the first field of the whole text may exceed its clock range.
std::optional<Milliseconds> sum_fields(const std::vector<std::int64_t>& fields,
                                       const std::vector<std::int64_t>& units_ms, std::int64_t total_ms,
                                       bool first_is_free) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::int64_t limit = units_ms[i] == 3'600'000 ? 23 : 59;
    if (fields[i] > limit && !(first_is_free && i == 0)) return std::nullopt;
    const auto sum = within_limits(fields[i], units_ms[i], total_ms);
    if (!sum) return std::nullopt;
    total_ms = sum->count();
  }
  return Milliseconds(total_ms);
}

std::optional<Milliseconds> parse_slurm_form(std::string_view text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) {
    const auto fields = split_numbers(text);
    if (!fields || fields->size() < 2 || fields->size() > 3) return std::nullopt;
    if (fields->size() == 2) return sum_fields(*fields, {60'000, 1'000}, 0, true);
    return sum_fields(*fields, {3'600'000, 60'000, 1'000}, 0, true);
  }
  const auto days = split_numbers(text.substr(0, dash));
  const auto clock = split_numbers(text.substr(dash + 1));
  if (!days || days->size() != 1 || !clock || clock->size() > 3) return std::nullopt;
  const auto days_ms = within_limits(days->front(), 86'400'000, 0);
  if (!days_ms) return std::nullopt;
  return sum_fields(*clock, {3'600'000, 60'000, 1'000}, days_ms->count(), false);
}

constexpr std::string_view kMemoryUnits = "KMGT";

}  // namespace

std::optional<Milliseconds> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (text.find_first_of(":-") != std::string_view::npos) return parse_slurm_form(text);
  return parse_with_units(text);
}

std::optional<std::uint64_t> parse_memory(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto count = take_digits(text);
  if (!count || text.size() != 1) return std::nullopt;
  const char unit = static_cast<char>(text.front() & ~0x20);  // upper case
  const auto exponent = kMemoryUnits.find(unit);
  if (exponent == std::string_view::npos) return std::nullopt;
  const auto shift = 10 * (static_cast<unsigned>(exponent) + 1);
  const auto bytes = static_cast<std::uint64_t>(*count);
  if (bytes > (std::numeric_limits<std::uint64_t>::max() >> shift)) return std::nullopt;
  return bytes << shift;
}

std::string format_duration(Milliseconds duration) {
  std::int64_t rest_ms = duration.count();
  std::string text;
  for (const auto& [suffix, unit_ms] : kDurationUnits) {
    if (rest_ms < unit_ms) continue;
    text += fmt::format("{}{}", rest_ms / unit_ms, suffix);
    rest_ms %= unit_ms;
  }
  return text.empty() ? "0s" : text;
}

std::string format_memory(std::uint64_t bytes) {
  for (std::size_t exponent = kMemoryUnits.size(); exponent > 0; --exponent) {
    const auto shift = 10 * static_cast<unsigned>(exponent);
    const std::uint64_t unit = std::uint64_t{1} << shift;
    if (bytes >= unit && bytes % unit == 0)
      return fmt::format("{}{}", bytes >> shift, kMemoryUnits[exponent - 1]);
  }
  return fmt::format("{}B", bytes);
}

}  // namespace muster
