#include "slurm/gres.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace muster::slurm {

namespace {

constexpr auto kNone = std::string_view::npos;

std::optional<std::uint64_t> parse_count(std::string_view text) {
  constexpr std::string_view kUnits = "KMGTP";
  constexpr std::uint64_t kCountMax = std::uint64_t{1} << 62U;
  std::uint64_t count = 0;
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{}) return {};
  text.remove_prefix(static_cast<std::size_t>(next - text.data()));
  if (text.empty()) return count;
  const auto unit = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.front()))));
  if (text.size() != 1 || unit == kNone) return {};
  const auto shift = 10 * (static_cast<unsigned>(unit) + 1);
  if (count > (kCountMax >> shift)) return {};
  return count << shift;
}

bool is_name(std::string_view text) {
  const auto is_bad = [](unsigned char c) {
    return std::isgraph(c) == 0 || std::string_view("(),:=|").find(static_cast<char>(c)) != kNone;
  };
  return !text.empty() && std::none_of(text.begin(), text.end(), is_bad);
}

std::optional<Gres> parse_item(std::string_view item) {
  if (item.starts_with("gres:") || item.starts_with("gres/")) item.remove_prefix(5);
  std::vector<std::string_view> parts;
  for (std::string_view rest = item;;) {
    const std::size_t colon = rest.find(':');
    if (rest.substr(0, colon) != "no_consume") parts.push_back(rest.substr(0, colon));
    if (colon == kNone) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts.empty() || parts.size() > 3) return {};
  Gres gres;
  gres.name = parts[0];
  if (parts.size() > 1) {
    const auto count = parse_count(parts.back());
    if (count) gres.count = *count;
    if (!count && parts.size() == 3) return {};
    if (parts.size() == 3 || !count) gres.type = parts[1];
  }
  if (!is_name(gres.name) || (!gres.type.empty() && !is_name(gres.type)) ||
      (parts.size() == 3 && gres.type.empty()))
    return {};
  return gres;
}

// Without what stands in round brackets; nothing if these do not match.
std::optional<std::string> without_brackets(std::string_view text) {
  std::string kept;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) kept += c;
    if (c == ')' && --depth < 0) return {};
  }
  if (depth != 0) return {};
  return kept;
}

}  // namespace

Result<std::vector<Gres>> parse_gres(std::string_view text) {
  std::vector<Gres> all;
  if (text.empty() || text == "(null)") return all;
  const auto malformed = [&] {
    return fail(ErrorCode::kInvalidArgument, "'{}' is no list of generic resources like gpu:a100:4", text);
  };
  const auto kept = without_brackets(text);
  if (!kept) return malformed();
  for (std::string_view rest = *kept;;) {
    const std::size_t comma = rest.find(',');
    const auto gres = parse_item(rest.substr(0, comma));
    if (!gres) return malformed();
    all.push_back(*gres);
    if (comma == kNone) return all;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace muster::slurm
