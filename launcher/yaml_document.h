// A YAML (or JSON) file as a tree whose every node knows its place in the file. Built from yaml-cpp's events,
// because its own node tree silently keeps both of two equal keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/diagnostics.h"

namespace muster {

struct YamlEntry;

struct YamlNode {
  enum class Kind {
    kNull,
    kScalar,
    kSequence,
    kMap,
    kInvalid  // already reported: readers pass over it
  };
  Kind kind = Kind::kNull;
  SourcePosition position;
  std::string text;     // of a scalar
  bool quoted = false;  // a scalar in quotes, or a block: text and nothing else
  std::vector<YamlNode> items;
  std::vector<YamlEntry> entries;  // of a map, in file order, each key once
};

struct YamlEntry {
  std::string key;
  SourcePosition key_position;
  YamlNode value;
};

// Parses exactly one document. Never throws; what is wrong with the text (syntax, duplicate keys, aliases,
// tags, control characters, a second document, over a mebibyte) goes to `diagnostics`, and what could be read
// is returned.
YamlNode parse_yaml(std::string_view text, Diagnostics& diagnostics);

// For messages: 'text', nothing, a list, a group of keys.
std::string describe(const YamlNode& node);

}  // namespace muster
