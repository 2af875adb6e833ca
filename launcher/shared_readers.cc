#include "launcher/shared_readers.h"

#include <algorithm>
#include <cctype>

namespace muster {

namespace {

using std::chrono::milliseconds;

void read_variable(GroupReader& group, const YamlEntry& entry,
                   std::vector<EnvironmentVariable>& environment) {
  constexpr std::string_view kNameForms = "a name of letters, digits and '_', the first no digit";
  constexpr std::string_view kValueForms = "a text (\"\" for an empty one), or {secret: text}";
  if (!is_environment_name(entry.key)) {
    group.reject_found(entry.key, entry.key_position, "a name that is none of an environment variable",
                       kNameForms);
    return;
  }
  if (is_reserved_environment_name(entry.key)) {
    group.reject_found(entry.key, entry.key_position,
                       "a variable that muster, MPI or Slurm sets for each rank", "other names");
    return;
  }
  const YamlNode& node = entry.value;
  if (node.kind == YamlNode::Kind::kInvalid) return;
  if (node.kind == YamlNode::Kind::kScalar) {
    environment.push_back({entry.key, node.text, looks_secret(entry.key, node.text)});
    return;
  }
  const bool is_secret = node.kind == YamlNode::Kind::kMap && node.entries.size() == 1 &&
                         node.entries.front().key == "secret" &&
                         node.entries.front().value.kind == YamlNode::Kind::kScalar;
  if (is_secret) {
    environment.push_back({entry.key, node.entries.front().value.text, true});
  } else {
    group.reject(entry.key, node, kValueForms);
  }
}

}  // namespace

void read_environment(GroupReader group, std::vector<EnvironmentVariable>& environment) {
  for (const YamlEntry* entry : group.take_matching([](const std::string&) { return true; })) {
    read_variable(group, *entry, environment);
  }
}

bool read_interface(GroupReader& group, std::string_view key, std::string& interface) {
  constexpr std::size_t kInterfaceNameMax = 15;  // the kernel's IFNAMSIZ without its NUL
  const YamlNode* node = group.take(key);
  if (node == nullptr) return false;
  const auto is_bad = [](unsigned char c) { return std::isgraph(c) == 0 || c == '/' || c == ','; };
  if (node->kind != YamlNode::Kind::kScalar || node->text.empty() || node->text.size() > kInterfaceNameMax ||
      std::any_of(node->text.begin(), node->text.end(), is_bad)) {
    group.reject(key, *node, "the name of a network interface, such as eth0 or ib0");
    return false;
  }
  interface = node->text;
  return true;
}

bool read_time_limit(GroupReader& group, std::string_view key, std::optional<milliseconds>& limit) {
  constexpr milliseconds kSecond{1'000};
  constexpr milliseconds kYear{std::chrono::days{365}};
  const YamlNode* node = group.take(key);
  if (node == nullptr) return false;
  if (node->kind == YamlNode::Kind::kScalar && (node->text == "unlimited" || node->text == "UNLIMITED")) {
    limit.reset();
    return true;
  }
  milliseconds value{0};
  if (!group.duration(key, {kSecond, kYear}, value)) return false;
  limit = value;
  return true;
}

}  // namespace muster
