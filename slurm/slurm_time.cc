#include "slurm/slurm_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <vector>

namespace muster::slurm {
namespace {

using std::chrono::seconds;

constexpr seconds kMinute{60};
constexpr seconds kHour{3'600};
constexpr seconds kDay{86'400};
constexpr seconds kLengthMax = 36'525 * kDay;  // 100 years: sums of such lengths cannot overflow

struct Word {
  std::string_view text;
  TimeSpan::Kind kind;
};
// The first of a kind is the one that is written.
constexpr std::array kWords{
    Word{"UNLIMITED", TimeSpan::Kind::kUnlimited}, Word{"INFINITE", TimeSpan::Kind::kUnlimited},
    Word{"Partition_Limit", TimeSpan::Kind::kPartitionLimit}, Word{"NOT_SET", TimeSpan::Kind::kNotSet},
    Word{"INVALID", TimeSpan::Kind::kInvalid}};

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::optional<std::int64_t> number(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.front() == '-') {
    return std::nullopt;
  }
  return value;
}

// "1:30:00" → 1, 30, 0
std::optional<std::vector<std::int64_t>> clock_fields(std::string_view text) {
  constexpr std::size_t kFieldsMax = 3;
  std::vector<std::int64_t> fields;
  while (fields.size() < kFieldsMax) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const auto field = number(text.substr(0, colon));
    if (!field) return std::nullopt;
    fields.push_back(*field);
    if (colon == text.size()) return fields;
    text.remove_prefix(colon + 1);
  }
  return std::nullopt;
}

// Fields of the given units added up. The first may be as large as it likes, unless days come before it.
std::optional<seconds> sum(const std::vector<std::int64_t>& fields, const std::vector<seconds>& units,
                           bool first_is_free) {
  seconds total{0};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::int64_t limit =
        i == 0 && first_is_free ? kLengthMax / units[i] : (units[i] == kHour ? 23 : 59);
    if (fields[i] > limit) return std::nullopt;
    total += fields[i] * units[i];
  }
  return total;
}

std::optional<seconds> length_of(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto clock = clock_fields(dash == std::string_view::npos ? text : text.substr(dash + 1));
  if (!clock) return std::nullopt;
  if (dash == std::string_view::npos) {
    if (clock->size() == 3) return sum(*clock, {kHour, kMinute, seconds(1)}, true);
    return sum(*clock, {kMinute, seconds(1)}, true);
  }
  const auto days = number(text.substr(0, dash));
  const auto rest = sum(*clock, {kHour, kMinute, seconds(1)}, false);
  if (!days || *days >= kLengthMax / kDay || !rest) return std::nullopt;
  return *days * kDay + *rest;
}

// The number in the given columns of a moment; -1 for other characters.
int field_of(std::string_view text, std::size_t begin, std::size_t width) {
  const std::string_view digits = text.substr(begin, width);
  const bool is_number =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? static_cast<int>(number(digits).value_or(-1)) : -1;
}

std::optional<std::chrono::sys_seconds> moment_of(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] != '0' && text[i] != kForm[i]) return std::nullopt;
  }
  const int year = field_of(text, 0, 4);
  const int month = field_of(text, 5, 2);
  const int day = field_of(text, 8, 2);
  const int hour = field_of(text, 11, 2);
  const int minute = field_of(text, 14, 2);
  const int second = field_of(text, 17, 2);
  if (std::min({year, month, day, hour, minute, second}) < 0) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  return std::chrono::sys_days(date) + hour * kHour + minute * kMinute + seconds(second);
}

}  // namespace

Result<TimeSpan> parse_time_span(std::string_view text) {
  for (const Word& word : kWords) {
    if (equal_in_any_case(text, word.text)) return TimeSpan{word.kind, seconds(0)};
  }
  const auto length = text.empty() ? std::nullopt : length_of(text);
  if (!length || *length > kLengthMax) {
    return fail(ErrorCode::kInvalidArgument, "'{}' is no length of time; allowed: {}", text, kTimeSpanForms);
  }
  return TimeSpan::finite(*length);
}

std::string format_time_span(const TimeSpan& span) {
  for (const Word& word : kWords) {
    if (word.kind == span.kind) return std::string(word.text);
  }
  return fmt::format("{}-{:02}:{:02}:{:02}", span.length / kDay, span.length % kDay / kHour,
                     span.length % kHour / kMinute, (span.length % kMinute).count());
}

Result<std::optional<std::chrono::sys_seconds>> parse_moment(std::string_view text) {
  for (const std::string_view none : {"Unknown", "N/A", "None", "(null)"}) {
    if (text == none) return std::optional<std::chrono::sys_seconds>();
  }
  const auto moment = moment_of(text);
  if (!moment) {
    return fail(ErrorCode::kInvalidArgument,
                "'{}' is no time; allowed: YYYY-MM-DDThh:mm:ss, Unknown, N/A, None", text);
  }
  return std::optional(*moment);
}

std::string format_moment(std::optional<std::chrono::sys_seconds> moment) {
  if (!moment) return "Unknown";
  const auto day = std::chrono::floor<std::chrono::days>(*moment);
  const std::chrono::year_month_day date(day);
  const seconds clock = *moment - day;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", int(date.year()), unsigned(date.month()),
                     unsigned(date.day()), clock / kHour, clock % kHour / kMinute, (clock % kMinute).count());
}

}  // namespace muster::slurm
