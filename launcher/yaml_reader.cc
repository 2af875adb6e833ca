#include "launcher/yaml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "launcher/nearest_name.h"
#include "launcher/units.h"

namespace muster {

namespace {

const YamlNode kEmptyMap = [] {
  YamlNode node;
  node.kind = YamlNode::Kind::kMap;
  return node;
}();

template <class T>
bool parse_all(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

}  // namespace

bool parse_integer(std::string_view text, std::int64_t& value) { return parse_all(text, value); }

bool parse_number(std::string_view text, double& value) {
  double parsed = 0;
  if (!parse_all(text, parsed) || !std::isfinite(parsed)) return false;
  value = parsed;
  return true;
}

// ---- ReadContext -----------------------------------------------------------------------------------------

std::string ReadContext::suggestion(const std::string& group, const std::string& key) const {
  const auto siblings = known_.find(group);
  if (siblings != known_.end()) {
    const std::vector<std::string> names(siblings->second.begin(), siblings->second.end());
    if (const auto nearest = nearest_name(key, names)) return *nearest;
  }
  for (const auto& [other_group, names] : known_) {
    if (!names.contains(key)) continue;
    if (!other_group.empty()) return fmt::format("{}.{}", other_group, key);
    return fmt::format("{}' at the top level, not in '{}", key, group);
  }
  return "";
}

void ReadContext::finish() {
  for (const auto& [group, entry] : unknown_) {
    const std::string name = group.empty() ? entry.key : group + "." + entry.key;
    const std::string nearest = suggestion(group, entry.key);
    diagnostics_->error(entry.key_position,
                        fmt::format("unknown key '{}';{} allowed here: {}", name,
                                    nearest.empty() ? "" : fmt::format(" did you mean '{}'?", nearest),
                                    fmt::join(known_[group], ", ")));
  }
  unknown_.clear();
}

// ---- GroupReader -----------------------------------------------------------------------------------------

GroupReader::GroupReader(const YamlNode& map, std::string name, ReadContext& context)
    : map_(&map), name_(std::move(name)), context_(&context), taken_(map.entries.size(), false) {}

std::string GroupReader::full_name(std::string_view key) const {
  return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
}

const YamlNode* GroupReader::take(std::string_view key) {
  context_->know(name_, key);
  for (std::size_t i = 0; i < map_->entries.size(); ++i) {
    const YamlEntry& entry = map_->entries[i];
    if (entry.key != key) continue;
    taken_[i] = true;
    context_->positions()[full_name(key)] = entry.key_position;
    if (entry.value.kind != YamlNode::Kind::kInvalid) return &entry.value;
    context_->failed(full_name(key));
    return nullptr;
  }
  return nullptr;
}

std::vector<const YamlEntry*> GroupReader::take_matching(
    const std::function<bool(const std::string& key)>& wanted) {
  std::vector<const YamlEntry*> matching;
  for (std::size_t i = 0; i < map_->entries.size(); ++i) {
    const YamlEntry& entry = map_->entries[i];
    if (taken_[i] || !wanted(entry.key)) continue;
    taken_[i] = true;
    context_->positions()[full_name(entry.key)] = entry.key_position;
    matching.push_back(&entry);
  }
  return matching;
}

void GroupReader::reject(std::string_view key, const YamlNode& node, std::string_view allowed) {
  const std::string found = node.kind == YamlNode::Kind::kScalar && node.quoted
                                ? fmt::format("the quoted text {}", describe(node))
                                : describe(node);
  reject_found(key, node.position, found, allowed);
}

void GroupReader::reject_found(std::string_view key, SourcePosition position, std::string_view found,
                               std::string_view allowed) {
  context_->failed(full_name(key));
  context_->diagnostics().error(position,
                                fmt::format("{}: found {}; allowed: {}", full_name(key), found, allowed));
}

void GroupReader::require(std::string_view key, std::string_view allowed) {
  const bool given = std::any_of(map_->entries.begin(), map_->entries.end(),
                                 [&](const YamlEntry& entry) { return entry.key == key; });
  if (!given) {
    context_->failed(full_name(key));
    context_->diagnostics().error(
        map_->position, fmt::format("{}: the key is missing; allowed: {}", full_name(key), allowed));
  }
}

// A value that is not text in quotes: `num_workers: "4"` is a mistake.
const YamlNode* GroupReader::take_plain_scalar(std::string_view key, std::string_view allowed) {
  const YamlNode* node = take(key);
  if (node == nullptr) return nullptr;
  if (node->kind == YamlNode::Kind::kScalar && !node->quoted) return node;
  reject(key, *node, allowed);
  return nullptr;
}

bool GroupReader::text(std::string_view key, std::string& value) {
  const YamlNode* node = take(key);
  if (node == nullptr) return false;
  if (node->kind != YamlNode::Kind::kScalar || node->text.empty()) {
    reject(key, *node, "a text that is not empty");
    return false;
  }
  value = node->text;
  return true;
}

bool GroupReader::integer(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t& value) {
  const std::string allowed = fmt::format("a whole number from {} to {}", min, max);
  const YamlNode* node = take_plain_scalar(key, allowed);
  if (node == nullptr) return false;
  std::int64_t parsed = 0;
  if (!parse_integer(node->text, parsed) || parsed < min || parsed > max) {
    reject(key, *node, allowed);
    return false;
  }
  value = parsed;
  return true;
}

bool GroupReader::integer(std::string_view key, std::int64_t min, std::int64_t max, int& value) {
  std::int64_t wide = 0;
  if (!integer(key, min, max, wide)) return false;
  value = static_cast<int>(wide);
  return true;
}

bool GroupReader::number(std::string_view key, const NumberRange& range, double& value) {
  const YamlNode* node = take_plain_scalar(key, range.allowed);
  if (node == nullptr) return false;
  double parsed = 0;
  const bool good = parse_number(node->text, parsed) &&
                    (range.min_excluded ? parsed > range.min : parsed >= range.min) &&
                    (range.max_excluded ? parsed < range.max : parsed <= range.max);
  if (!good) {
    reject(key, *node, range.allowed);
    return false;
  }
  value = parsed;
  return true;
}

bool GroupReader::boolean(std::string_view key, bool& value) {
  constexpr std::string_view kAllowed = "true or false";
  const YamlNode* node = take_plain_scalar(key, kAllowed);
  if (node == nullptr) return false;
  if (node->text != "true" && node->text != "false") {
    reject(key, *node, kAllowed);
    return false;
  }
  value = node->text == "true";
  return true;
}

bool GroupReader::duration(std::string_view key, const DurationRange& range, std::chrono::milliseconds& value,
                           std::string_view besides) {
  const std::string allowed =
      fmt::format("{}a duration with a unit, from {} to {}, such as {}", besides, format_duration(range.min),
                  format_duration(range.max), kDurationForms);
  const YamlNode* node = take(key);
  if (node == nullptr) return false;
  const auto parsed = node->kind == YamlNode::Kind::kScalar ? parse_duration(node->text) : std::nullopt;
  if (!parsed || *parsed < range.min || *parsed > range.max) {
    reject(key, *node, allowed);
    return false;
  }
  value = *parsed;
  return true;
}

bool GroupReader::memory(std::string_view key, std::uint64_t& bytes) {
  const YamlNode* node = take(key);
  if (node == nullptr) return false;
  const auto parsed = node->kind == YamlNode::Kind::kScalar ? parse_memory(node->text) : std::nullopt;
  if (!parsed || *parsed == 0) {
    reject(key, *node, fmt::format("a size greater than 0, such as {}", kMemoryForms));
    return false;
  }
  bytes = *parsed;
  return true;
}

bool GroupReader::text_list(std::string_view key, std::vector<std::string>& values) {
  constexpr std::string_view kAllowed = "a text or a list of texts, none of them empty";
  const YamlNode* node = take(key);
  if (node == nullptr) return false;
  std::vector<std::string> read;
  if (node->kind == YamlNode::Kind::kScalar && !node->text.empty()) {
    read.push_back(node->text);
  } else if (node->kind == YamlNode::Kind::kSequence) {
    for (const YamlNode& item : node->items) {
      if (item.kind == YamlNode::Kind::kScalar && !item.text.empty()) {
        read.push_back(item.text);
      } else if (item.kind != YamlNode::Kind::kInvalid) {
        reject(key, item, "a text that is not empty");
        return false;
      }
    }
  } else {
    reject(key, *node, kAllowed);
    return false;
  }
  values = std::move(read);
  return true;
}

int GroupReader::choice_index(std::string_view key, const std::vector<std::string>& names) {
  const YamlNode* node = take(key);
  if (node == nullptr) return -1;
  const auto match =
      node->kind == YamlNode::Kind::kScalar ? std::find(names.begin(), names.end(), node->text) : names.end();
  if (match != names.end()) return static_cast<int>(match - names.begin());
  std::string allowed = fmt::format("{}", fmt::join(names, ", "));
  if (node->kind == YamlNode::Kind::kScalar) {
    if (const auto nearest = nearest_name(node->text, names)) {
      allowed += fmt::format("; did you mean '{}'?", *nearest);
    }
  }
  reject(key, *node, allowed);
  return -1;
}

GroupReader GroupReader::group(std::string_view key) {
  bool unused = false;
  return group_or_word(key, "", unused);
}

GroupReader GroupReader::group_or_word(std::string_view key, std::string_view word, bool& is_word) {
  const YamlNode* node = take(key);
  const bool is_absent = node == nullptr || node->kind == YamlNode::Kind::kNull;
  is_word = !is_absent && !word.empty() && node->kind == YamlNode::Kind::kScalar && node->text == word;
  const bool has_keys = !is_absent && node->kind == YamlNode::Kind::kMap;
  if (!is_absent && !is_word && !has_keys) {
    reject(key, *node, word.empty() ? "a group of keys" : fmt::format("{}, or a group of keys", word));
  }
  return GroupReader(has_keys ? *node : kEmptyMap, full_name(key), *context_);
}

void GroupReader::finish() {
  for (std::size_t i = 0; i < map_->entries.size(); ++i) {
    if (!taken_[i]) context_->unknown(name_, map_->entries[i]);
  }
}

}  // namespace muster
