// The document tree with its places, and typed reading with collected errors.
#include "launcher/yaml_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(YamlDocument, KnowsPlacesAndQuotes) {
  Diagnostics diagnostics("f");
  const YamlNode root = parse_yaml("a: 1\nb:\n  - \"x\"\n  - {c: d}\ne:\n", diagnostics);
  ASSERT_TRUE(diagnostics.empty()) << diagnostics.text();
  ASSERT_EQ(root.entries.size(), 3U);
  EXPECT_EQ(root.entries[0].key, "a");
  EXPECT_EQ(root.entries[0].key_position, (SourcePosition{1, 1}));
  EXPECT_EQ(root.entries[0].value.position, (SourcePosition{1, 4}));
  const YamlNode& list = root.entries[1].value;
  ASSERT_EQ(list.items.size(), 2U);
  EXPECT_TRUE(list.items[0].quoted);
  EXPECT_EQ(list.items[0].position, (SourcePosition{3, 5}));
  EXPECT_EQ(list.items[1].entries.at(0).value.position, (SourcePosition{4, 9}));
  EXPECT_EQ(root.entries[2].value.kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.entries[2].value.position, (SourcePosition{5, 1}));  // the key's
}

TEST(YamlDocument, KeepsTheFirstOfTwoEqualKeys) {
  Diagnostics diagnostics("f");
  const YamlNode root = parse_yaml("a: 1\na: 2\n", diagnostics);
  EXPECT_EQ(diagnostics.text(),
            "f:2:1: key 'a' was already given at line 1, column 1; allowed: each key once");
  ASSERT_EQ(root.entries.size(), 1U);
  EXPECT_EQ(root.entries[0].value.text, "1");
}

TEST(YamlDocument, DescribesValuesOnOneLine) {
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.text = "two\nlines\tand a tab";
  EXPECT_EQ(describe(node), "'two\\nlines\\tand a tab'");
  node.text.clear();
  for (int i = 0; i < 100; ++i) node.text += "é";
  const std::string shown = describe(node);
  EXPECT_LT(shown.size(), 70U);
  EXPECT_TRUE(shown.ends_with("é…'")) << shown;
}

// Reads three typed keys and a group.
struct Example {
  explicit Example(std::string yaml) : text(std::move(yaml)) {}

  std::string text;
  std::int64_t count = -1;
  bool flag = false;
  double rate = -1;
  std::string name;

  std::string read() {
    Diagnostics diagnostics("f");
    const YamlNode root = parse_yaml(text, diagnostics);
    ReadContext context(diagnostics);
    GroupReader reader(root, "", context);
    reader.integer("count", 1, 10, count);
    reader.boolean("flag", flag);
    GroupReader group = reader.group("group");
    group.number("rate", {0, 1, false, true, "a fraction"}, rate);
    group.text("name", name);
    group.finish();
    reader.finish();
    context.finish();
    places = context.positions();
    return diagnostics.text();
  }
  std::map<std::string, SourcePosition> places;
};

TEST(GroupReader, ReadsValuesAndPlaces) {
  Example example{"count: 7\nflag: true\ngroup: {rate: 0.5, name: 12}\n"};
  EXPECT_EQ(example.read(), "");
  EXPECT_EQ(example.count, 7);
  EXPECT_TRUE(example.flag);
  EXPECT_EQ(example.rate, 0.5);
  EXPECT_EQ(example.name, "12");
  EXPECT_EQ(example.places.at("group.rate"), (SourcePosition{3, 9}));
}

TEST(GroupReader, LeavesValuesAloneOnErrors) {
  Example example{"count: 11\nflag: 1\ngroup: {rate: 1, name: }\n"};
  EXPECT_EQ(example.read(),
            "f:1:8: count: found '11'; allowed: a whole number from 1 to 10\n"
            "f:2:7: flag: found '1'; allowed: true or false\n"
            "f:3:15: group.rate: found '1'; allowed: a fraction\n"
            "f:3:24: group.name: found nothing; allowed: a text that is not empty");
  EXPECT_EQ(example.count, -1);
  EXPECT_FALSE(example.flag);
  EXPECT_EQ(example.rate, -1);
}

TEST(GroupReader, AGroupThatIsNotThereStillNamesItsKeys) {
  Example example{"rate: 1\ncont: 2\n"};
  EXPECT_EQ(example.read(),
            "f:1:1: unknown key 'rate'; did you mean 'group.rate'? allowed here: count, flag, group\n"
            "f:2:1: unknown key 'cont'; did you mean 'count'? allowed here: count, flag, group");
}

TEST(GroupReader, AnUnreadableValueIsReportedOnce) {
  Example example{"count: &x 1\nflag: *x\n"};
  EXPECT_EQ(example.read(), "f:2:7: found an alias (*name); allowed: the value itself, written out");
}

TEST(GroupReader, ParsesWholeTextsOnly) {
  std::int64_t integer = 0;
  double number = 0;
  for (const char* text : {"", "1x", "x1", " 1", "1 ", "+1", "0x10", "1_000", "9223372036854775808"}) {
    EXPECT_FALSE(parse_integer(text, integer)) << text;
  }
  for (const char* text : {"", "1x", " 1", "+1", "nan", "inf", "-inf", ".nan", "1e999", "1,5", "0x1p3"}) {
    EXPECT_FALSE(parse_number(text, number)) << text;
  }
  EXPECT_TRUE(parse_integer("-9223372036854775808", integer));
  EXPECT_TRUE(parse_number("1e-3", number));
  EXPECT_EQ(number, 0.001);
}

}  // namespace
}  // namespace muster
