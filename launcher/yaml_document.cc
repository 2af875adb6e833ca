#include "launcher/yaml_document.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>

namespace muster {

namespace {

SourcePosition position_of(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {mark.line + 1, mark.column + 1};
}

std::string_view from_line(std::string_view text, int line_number) {
  for (int line = 1; line < line_number; ++line) {
    text.remove_prefix(std::min(text.find('\n') + 1, text.size()));
  }
  return text;
}

// yaml-cpp lets a quoted text run to the end of the file without its closing quote. `at` is where the node
// begins, which may be an anchor or a tag before the quote.
bool has_closing_quote(std::string_view text, SourcePosition at) {
  text = from_line(text, at.line);
  text.remove_prefix(std::min(static_cast<std::size_t>(at.column - 1), text.size()));
  while (!text.empty() && (text.front() == '&' || text.front() == '!')) {
    text.remove_prefix(std::min(text.find_first_of(" \t\n"), text.size()));
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  }
  if (text.empty() || (text.front() != '"' && text.front() != '\'')) return true;  // a block
  const char quote = text.front();
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (text[i] == quote) {
      const bool is_escaped = quote == '\'' && i + 1 < text.size() && text[i + 1] == quote;
      if (!is_escaped) return true;
      ++i;
    }
  }
  return false;
}

// Turns events into nodes. `open_` holds the containers that have begun and not ended, innermost last.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, Diagnostics& diagnostics) : text_(text), diagnostics_(diagnostics) {}

  YamlNode take_root() { return std::move(root_); }
  SourcePosition start() const { return start_; }

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = position_of(mark); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    add(make(YamlNode::Kind::kNull, mark));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    diagnostics_.error(position_of(mark), "found an alias (*name); allowed: the value itself, written out");
    add(make(YamlNode::Kind::kInvalid, mark));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    YamlNode node = make(YamlNode::Kind::kScalar, mark);
    node.text = value;
    node.quoted = tag == "!";
    if (!check_tag(mark, tag)) node.kind = YamlNode::Kind::kInvalid;
    if (value.find('\0') != std::string::npos) {
      diagnostics_.error(node.position, "found a NUL character (\\0); allowed: text without it");
      node.kind = YamlNode::Kind::kInvalid;
    }
    if (node.quoted && !has_closing_quote(text_, node.position)) {
      diagnostics_.error(node.position, "not valid YAML: the quote that begins here is not closed");
      node.kind = YamlNode::Kind::kInvalid;
    }
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    begin(make(YamlNode::Kind::kSequence, mark), tag, mark);
  }
  void OnSequenceEnd() override { end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    begin(make(YamlNode::Kind::kMap, mark), tag, mark);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Container {
    YamlNode node;
    std::optional<YamlNode> key;  // of a map: read, its value not yet
  };

  static YamlNode make(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode node;
    node.kind = kind;
    node.position = position_of(mark);
    return node;
  }

  bool check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return true;
    diagnostics_.error(position_of(mark),
                       fmt::format("found the tag '{}'; allowed: values without tags", tag));
    return false;
  }

  void begin(YamlNode node, const std::string& tag, const YAML::Mark& mark) {
    check_tag(mark, tag);
    open_.push_back({std::move(node), std::nullopt});
  }

  void end() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Container& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kSequence) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      parent.key = std::move(node);
    } else {
      add_entry(parent, std::move(node));
    }
  }

  void add_entry(Container& parent, YamlNode value) {
    const YamlNode key = std::move(*parent.key);
    parent.key.reset();
    if (key.kind == YamlNode::Kind::kInvalid) return;
    if (key.kind != YamlNode::Kind::kScalar) {
      diagnostics_.error(key.position, fmt::format("found {} as a key; allowed: a name", describe(key)));
      return;
    }
    if (key.text.empty()) {
      diagnostics_.error(key.position, "found an empty text as a key; allowed: a name");
      return;
    }
    // The mark of a value that is not there is wherever the scanner went to look for it.
    if (value.kind == YamlNode::Kind::kNull && value.position.line != key.position.line) {
      value.position = key.position;
    }
    auto& entries = parent.node.entries;
    const auto first =
        std::find_if(entries.begin(), entries.end(), [&](const YamlEntry& e) { return e.key == key.text; });
    if (first != entries.end()) {
      diagnostics_.error(
          key.position,
          fmt::format("key '{}' was already given at line {}, column {}; allowed: each key once", key.text,
                      first->key_position.line, first->key_position.column));
      return;
    }
    entries.push_back({key.text, key.position, std::move(value)});
  }

  std::string_view text_;
  Diagnostics& diagnostics_;
  SourcePosition start_;
  YamlNode root_;
  std::vector<Container> open_;
};

// Length of the UTF-8 sequence at the front of `text`; 0 if it is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : (lead & 0xF0U) == 0xE0       ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool too_large = lead == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

// yaml-cpp takes some control characters for the end of the file and passes broken UTF-8 through.
bool check_characters(std::string_view text, Diagnostics& diagnostics) {
  SourcePosition position;
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
      diagnostics.error(position,
                        fmt::format("found the control character 0x{:02x}; allowed: printable text", c));
      return false;
    }
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      diagnostics.error(position, fmt::format("found the byte 0x{:02x}; allowed: text in UTF-8", c));
      return false;
    }
    position.column += static_cast<int>(length);
    if (c == '\n') position = {position.line + 1, 1};
    i += length;
  }
  return true;
}

bool is_indented_with_tab(std::string_view text, int line_number) {
  text = from_line(text, line_number);
  return text.substr(0, text.find_first_not_of(" \t")).find('\t') != std::string_view::npos;
}

// On one line, and not longer than a message can bear.
std::string shown(std::string_view text) {
  constexpr std::size_t kShownBytesMax = 60;
  std::string line;
  while (!text.empty() && line.size() < kShownBytesMax) {
    const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
    const char c = text.front();
    line += c == '\n'   ? std::string("\\n")
            : c == '\t' ? std::string("\\t")
                        : std::string(text.substr(0, length));
    text.remove_prefix(length);
  }
  return text.empty() ? line : line + "…";
}

}  // namespace

YamlNode parse_yaml(std::string_view text, Diagnostics& diagnostics) {
  constexpr std::size_t kFileBytesMax = 1U << 20;  // far beyond what people write; a data file by mistake
  YamlNode invalid;
  invalid.kind = YamlNode::Kind::kInvalid;
  if (text.size() > kFileBytesMax) {
    diagnostics.error({},
                      fmt::format("found a file of {} bytes; allowed: up to {}", text.size(), kFileBytesMax));
    return invalid;
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (!check_characters(text, diagnostics)) return invalid;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(text, diagnostics);
    if (!parser.HandleNextDocument(builder)) return {};
    YamlNode root = builder.take_root();
    TreeBuilder second(text, diagnostics);
    if (parser.HandleNextDocument(second)) {
      diagnostics.error(second.start(), "found a second document; allowed: one document in a file");
    }
    return root;
  } catch (const YAML::DeepRecursion& error) {
    diagnostics.error(position_of(error.mark), "not valid YAML: nested too deeply");
  } catch (const YAML::Exception& error) {
    const SourcePosition position = position_of(error.mark);
    diagnostics.error(position, fmt::format("not valid YAML: {}{}", error.msg,
                                            is_indented_with_tab(text, position.line)
                                                ? "; the line is indented with a tab; allowed: spaces"
                                                : ""));
  } catch (const std::exception& error) {
    diagnostics.error({}, fmt::format("not valid YAML: {}", error.what()));
  }
  return invalid;
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return fmt::format("'{}'", shown(node.text));
    case YamlNode::Kind::kSequence:
      return node.items.empty() ? "an empty list" : "a list";
    case YamlNode::Kind::kMap:
      return "a group of keys";
    case YamlNode::Kind::kInvalid:
      break;
  }
  return "something unreadable";
}

}  // namespace muster
