#include "slurm/hostlist.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace muster::slurm {
namespace {

constexpr std::size_t kDigitsMax = 18;  // of a number that fits std::uint64_t

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= kDigitsMax && std::all_of(text.begin(), text.end(), is_digit);
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string padded(std::uint64_t value, std::size_t width) { return fmt::format("{:0{}}", value, width); }

// The pieces of `text` between `separator`s outside brackets.
Result<std::vector<std::string_view>> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> items;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && !inside)) {
      items.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else if (text[i] == '[' || text[i] == ']') {
      const bool opens = text[i] == '[';
      if (opens == inside) {
        return fail(ErrorCode::kInvalidArgument, "'{}' is no host list: a bracket at character {} {}", text,
                    i + 1, opens ? "opens within another" : "closes none");
      }
      inside = opens;
    }
  }
  if (inside) return fail(ErrorCode::kInvalidArgument, "'{}' is no host list: a bracket is not closed", text);
  return items;
}

// "1-3,07" → 1, 2, 3, 07
Result<std::vector<std::string>> expand_ranges(std::string_view text) {
  const auto wrong = [&](std::string_view range) {
    return fail(ErrorCode::kInvalidArgument, "'{}' in a host list is no number and no range like 1-4", range);
  };
  std::vector<std::string> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view range = text.substr(begin, end - begin);
    const std::size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
    if (!is_number(first) || !is_number(last) || number(last) < number(first)) return wrong(range);
    if (number(last) - number(first) >= kHostsMax - numbers.size()) {
      return fail(ErrorCode::kInvalidArgument, "'{}' in a host list stands for too many hosts; allowed: {}",
                  range, kHostsMax);
    }
    for (std::uint64_t value = number(first); value <= number(last); ++value) {
      numbers.push_back(padded(value, first.size()));
    }
    begin = end + 1;
  }
  return numbers;
}

Result<std::vector<std::string>> expand_item(std::string_view item) {
  std::vector<std::string> names{""};
  while (!item.empty()) {
    const std::size_t open = std::min(item.find('['), item.size());
    for (std::string& name : names) name += item.substr(0, open);
    if (open == item.size()) break;
    const std::size_t close = item.find(']');
    MUSTER_ASSIGN(const std::vector<std::string> numbers,
                  expand_ranges(item.substr(open + 1, close - open - 1)));
    if (names.size() * numbers.size() > kHostsMax) {
      return fail(ErrorCode::kInvalidArgument, "'{}' stands for too many hosts; allowed: {}", item,
                  kHostsMax);
    }
    std::vector<std::string> product;
    product.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const std::string& digits : numbers) product.push_back(name + digits);
    }
    names = std::move(product);
    item.remove_prefix(close + 1);
  }
  return names;
}

// A name as what is written around its last number.
struct Pattern {
  std::string before;
  std::string after;
  std::size_t width = 1;  // of a number with leading zeros; 1: as it comes
  auto operator<=>(const Pattern&) const = default;
};

// None for a name without a number that can be counted on.
std::optional<std::pair<Pattern, std::uint64_t>> pattern_of(const std::string& name) {
  const std::size_t end = name.find_last_of("0123456789") + 1;
  if (end == 0) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  const std::string_view digits = std::string_view(name).substr(begin, end - begin);
  if (!is_number(digits)) return std::nullopt;
  const std::size_t width = digits.front() == '0' ? digits.size() : 1;
  return std::pair(Pattern{name.substr(0, begin), name.substr(end), width}, number(digits));
}

// "1-3,5" for sorted, distinct numbers.
std::string ranges_of(const std::vector<std::uint64_t>& numbers, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    if (!text.empty()) text += ',';
    text += padded(numbers[i], width);
    if (j > i) text += '-' + padded(numbers[j], width);
    i = j + 1;
  }
  return text;
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  MUSTER_ASSIGN(const std::vector<std::string_view> items, split_outside_brackets(text));
  std::vector<std::string> names;
  for (const std::string_view item : items) {
    if (item.empty()) continue;
    MUSTER_ASSIGN(std::vector<std::string> more, expand_item(item));
    if (names.size() + more.size() > kHostsMax) {
      return fail(ErrorCode::kInvalidArgument, "'{}' stands for too many hosts; allowed: {}", text,
                  kHostsMax);
    }
    std::move(more.begin(), more.end(), std::back_inserter(names));
  }
  return names;
}

std::string compress_hostlist(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::map<Pattern, std::vector<std::uint64_t>> numbered;
  std::vector<std::string> items;
  for (const std::string& name : names) {
    if (const auto pattern = pattern_of(name)) {
      numbered[pattern->first].push_back(pattern->second);
    } else if (!name.empty()) {
      items.push_back(name);
    }
  }
  for (auto& [pattern, numbers] : numbered) {
    std::sort(numbers.begin(), numbers.end());
    const std::string ranges = ranges_of(numbers, pattern.width);
    const bool one = numbers.size() == 1;
    items.push_back(pattern.before + (one ? ranges : "[" + ranges + "]") + pattern.after);
  }
  return fmt::format("{}", fmt::join(items, ","));
}

}  // namespace muster::slurm
