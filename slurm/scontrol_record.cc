#include "slurm/scontrol_record.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace muster::slurm {

namespace {

constexpr auto kNone = std::string_view::npos;

// Free text, and the keys of which one comes next.
struct FreeText {
  std::string_view key;
  std::array<std::string_view, 6> next;
};
constexpr std::array kFreeTexts{
    FreeText{"JobName", {"UserId"}},
    FreeText{"Command", {"WorkDir"}},
    FreeText{"WorkDir", {"AdminComment", "SystemComment", "Comment", "StdErr", "ClusterFeatures", "Power"}},
    FreeText{"AdminComment", {"SystemComment", "Comment", "StdErr", "Power"}},
    FreeText{"SystemComment", {"Comment", "StdErr", "Power"}},
    FreeText{"Comment", {"StdErr", "Extra", "Power"}},
    FreeText{"StdErr", {"StdIn"}},
    FreeText{"StdIn", {"StdOut"}},
    FreeText{"StdOut", {"BatchScript", "Power", "MailUser", "TresPerJob", "TresPerNode"}},
    FreeText{"OS", {"RealMemory"}},
};

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_/:.[]-").find(c) != kNone;
}

// The length of "Key=" at the front of `text`, 0 if there is none. "ReqB:S:C:T=" and "CPUs/Task=" are keys.
std::size_t key_length(std::string_view text) {
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0) return 0;
  const auto end = std::find_if_not(text.begin(), text.end(), is_key_character);
  return end != text.end() && *end == '=' ? static_cast<std::size_t>(end - text.begin()) + 1 : 0;
}

// Where the next key begins that `wanted` accepts; the end of the line otherwise.
template <class Wanted>
std::size_t next_key(std::string_view line, std::size_t from, const Wanted& wanted) {
  for (std::size_t space = line.find(' ', from); space != kNone; space = line.find(' ', space + 1)) {
    const std::size_t length = key_length(line.substr(space + 1));
    if (length > 0 && wanted(line.substr(space + 1, length - 1))) return space + 1;
  }
  return line.size();
}

std::size_t end_of_value(std::string_view line, std::size_t from, std::string_view key, bool is_node) {
  // A node's reason ends its line, or its Comment does; a job's is one word.
  if (key == "Reason" && is_node) {
    return next_key(line, from, [](std::string_view next) { return next == "Comment"; });
  }
  const auto free =
      std::find_if(kFreeTexts.begin(), kFreeTexts.end(), [&](const FreeText& f) { return f.key == key; });
  if (free != kFreeTexts.end()) {
    const std::size_t end = next_key(line, from, [&](std::string_view next) {
      return std::find(free->next.begin(), free->next.end(), next) != free->next.end();
    });
    if (end < line.size()) return end;
  }
  return next_key(line, from, [](std::string_view) { return true; });
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == kNone) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

template <class Take>
void for_each_line(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    take(trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

ScontrolRecord parse_record(std::string_view line) {
  ScontrolRecord record;
  const bool is_node = line.starts_with("NodeName=");
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t length = key_length(line.substr(at));
    const std::string_view key = line.substr(at, length - 1);
    const std::size_t end = end_of_value(line, at + length, key, is_node);
    record.fields.emplace_back(key, trimmed(line.substr(at + length, end - at - length)));
    at = end;
  }
  return record;
}

}  // namespace

std::string_view ScontrolRecord::text(std::string_view key) const {
  const auto field =
      std::find_if(fields.begin(), fields.end(), [&](const auto& entry) { return entry.first == key; });
  return field == fields.end() ? std::string_view{} : std::string_view(field->second);
}

std::optional<std::string> ScontrolRecord::find(std::string_view key) const {
  constexpr std::array<std::string_view, 5> kPlaceholders{"", "(null)", "N/A", "NONE", "None"};
  const std::string_view value = text(key);
  if (std::find(kPlaceholders.begin(), kPlaceholders.end(), value) != kPlaceholders.end()) return {};
  return std::string(value);
}

std::vector<ScontrolRecord> parse_scontrol_records(std::string_view text) {
  std::vector<ScontrolRecord> records;
  for_each_line(text, [&](std::string_view line) {
    if (key_length(line) > 0) records.push_back(parse_record(line));
  });
  return records;
}

ScontrolRecord parse_scontrol_config(std::string_view text) {
  ScontrolRecord record;
  for_each_line(text, [&](std::string_view line) {
    const std::size_t equals = line.find('=');
    if (equals == kNone) return;
    const std::string_view key = trimmed(line.substr(0, equals));
    if (key.empty() || !std::all_of(key.begin(), key.end(), is_key_character)) return;
    record.fields.emplace_back(key, trimmed(line.substr(equals + 1)));
  });
  return record;
}

}  // namespace muster::slurm
