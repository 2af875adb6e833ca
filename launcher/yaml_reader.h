// Typed reading of one group of keys: each call names a key, what it may hold, and where to put it. Errors
// are collected, so that one reading finds them all; a key that nobody asked for is reported with the nearest
// one that somebody did.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/diagnostics.h"
#include "launcher/yaml_document.h"

namespace muster {

// What the readers of one file share. `finish()` last.
class ReadContext {
 public:
  explicit ReadContext(Diagnostics& diagnostics) : diagnostics_(&diagnostics) {}

  Diagnostics& diagnostics() { return *diagnostics_; }
  // The place of every key that was read, by its full name: "trainer.optimizer.name".
  std::map<std::string, SourcePosition>& positions() { return positions_; }

  void know(const std::string& group, std::string_view key) { known_[group].emplace(key); }
  void unknown(const std::string& group, const YamlEntry& entry) { unknown_.emplace_back(group, entry); }
  // False for a key that an error was reported for: rules that combine it with others would mislead.
  bool is_good(const std::string& full_name) const { return !failed_.contains(full_name); }
  void failed(std::string full_name) { failed_.insert(std::move(full_name)); }
  // Reports the unknown keys, once every known one has been named.
  void finish();

 private:
  std::string suggestion(const std::string& group, const std::string& key) const;

  Diagnostics* diagnostics_;
  std::map<std::string, SourcePosition> positions_;
  std::map<std::string, std::set<std::string>> known_;  // by group
  std::vector<std::pair<std::string, YamlEntry>> unknown_;
  std::set<std::string> failed_;
};

struct NumberRange {
  double min;
  double max;
  bool min_excluded;
  bool max_excluded;
  std::string_view allowed;  // the range in words
};

struct DurationRange {
  std::chrono::milliseconds min;
  std::chrono::milliseconds max;
};

template <class T>
using Choices = std::vector<std::pair<std::string_view, T>>;

// A view of one map node, which must outlive it. Every reading function returns true if the key is there and
// its value good; otherwise it leaves the value alone, and an error was reported if the key is there.
class GroupReader {
 public:
  // `name` is empty for the whole file.
  GroupReader(const YamlNode& map, std::string name, ReadContext& context);

  bool text(std::string_view key, std::string& value);  // not an empty one
  bool integer(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t& value);
  bool integer(std::string_view key, std::int64_t min, std::int64_t max, int& value);
  bool number(std::string_view key, const NumberRange& range, double& value);
  bool boolean(std::string_view key, bool& value);
  // `besides`: what the caller takes as well, for the message.
  bool duration(std::string_view key, const DurationRange& range, std::chrono::milliseconds& value,
                std::string_view besides = "");
  bool memory(std::string_view key, std::uint64_t& bytes);
  // A list of texts, or a single one; none of them empty.
  bool text_list(std::string_view key, std::vector<std::string>& values);

  template <class T>
  bool choice(std::string_view key, const Choices<T>& choices, T& value) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : choices) names.emplace_back(name);
    const int index = choice_index(key, names);
    if (index < 0) return false;
    value = choices[static_cast<std::size_t>(index)].second;
    return true;
  }

  // The group under `key`; one without keys if it is not there, so that its keys are known all the same.
  GroupReader group(std::string_view key);
  // The same, but `word` may stand there instead of keys.
  GroupReader group_or_word(std::string_view key, std::string_view word, bool& is_word);
  // A map that stands in the list under `key`.
  GroupReader item_group(std::string_view key, const YamlNode& item) const {
    return GroupReader(item, full_name(key), *context_);
  }

  // Names a key that messages shall list among the known ones.
  void know(std::string_view key) { context_->know(name_, key); }
  // For what the functions above do not cover: makes the key known; null if it is not there (or unreadable).
  const YamlNode* take(std::string_view key);
  // The entries nobody has asked for whose key satisfies `wanted`; they are thereby accepted.
  std::vector<const YamlEntry*> take_matching(const std::function<bool(const std::string& key)>& wanted);

  // Reports `KEY: found FOUND; allowed: ALLOWED` at the node.
  void reject(std::string_view key, const YamlNode& node, std::string_view allowed);
  // The same with own words for what was found (a secret must not be shown).
  void reject_found(std::string_view key, SourcePosition position, std::string_view found,
                    std::string_view allowed);
  void require(std::string_view key, std::string_view allowed);

  std::string full_name(std::string_view key) const;
  // Hands the keys that were not asked for to the context.
  void finish();

 private:
  int choice_index(std::string_view key, const std::vector<std::string>& names);
  const YamlNode* take_plain_scalar(std::string_view key, std::string_view allowed);

  const YamlNode* map_;
  std::string name_;
  ReadContext* context_;
  std::vector<bool> taken_;  // by entry
};

// A scalar's text as a whole number or a decimal one: all of it, finite.
bool parse_integer(std::string_view text, std::int64_t& value);
bool parse_number(std::string_view text, double& value);

}  // namespace muster
