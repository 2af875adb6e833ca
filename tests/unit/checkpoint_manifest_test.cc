// The manifest: what is written comes back, and what is malformed is refused with the place named.
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/read_only_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "common/checkpoint/layout.h"
#include "common/checkpoint/verify.h"
#include "common/file_ops.h"
#include "common/sha256.h"
#include "tests/support/temporary_directory.h"

namespace muster::checkpoint {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Tensor a of 3x2 in two files, tensor b of 4 in the second.
Manifest sample() {
  Manifest manifest;
  manifest.step = 42;
  manifest.generation = 3;
  manifest.world_size = 2;
  manifest.created = "2026-03-01T12:34:56.789Z";
  manifest.code = "muster-train 0.1.0";
  manifest.metric = 0.1;
  manifest.state = {{"epoch", 7}, {"seed", 18446744073709551615ULL}, {"loss", 0.1}};
  manifest.tensors = {{"a", {3, 2}}, {"b", {4}}, {"none", {0, 5}}};
  const std::string hash(64, 'a');
  manifest.files = {
      {"rank-00000.h5", 1000, hash, {{"a", 0, 2, {2, 2}, 100, 16, hash}}},
      {"rank-00001.h5", 1000, hash, {{"a", 2, 3, {1, 2}, 100, 8, hash}, {"b", 0, 4, {4}, 108, 16, hash}}},
      {"master.h5", 500, hash, {}}};
  return manifest;
}

json sample_json() { return json::parse(manifest_to_text(sample()).value()); }

TEST(Manifest, ComesBackAsItWas) {
  const std::string text = manifest_to_text(sample()).value();
  const auto parsed = parse_manifest(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(manifest_to_text(*parsed).value(), text);
  EXPECT_EQ(parsed->state, sample().state);
  EXPECT_EQ(parsed->metric, 0.1);
  EXPECT_EQ(parsed->files[1].datasets[1].offset, 108);
  EXPECT_EQ(total_bytes(*parsed), 2500);
  EXPECT_EQ(find_tensor(*parsed, "b")->shape, std::vector<std::int64_t>{4});
  EXPECT_EQ(find_tensor(*parsed, "c"), nullptr);
}

TEST(Manifest, NoMetricAndUnknownFieldsAreFine) {
  json document = sample_json();
  document["metric"] = nullptr;
  document["added_later"] = {1, 2};
  const auto parsed = parse_manifest(document.dump());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_FALSE(parsed->metric);
}

TEST(Manifest, MalformedOnesAreRefusedAndSayWhere) {
  struct Case {
    std::string expected;
    std::function<void(json&)> change;
  };
  const std::string long_name(1001, 'x');
  const std::vector<Case> cases{
      {"field 'version' is not made of non-negative integers", [](json& m) { m["version"] = "1"; }},
      {"field 'format' is missing", [](json& m) { m.erase("format"); }},
      {"format is 'tarball', not 'muster-checkpoint'", [](json& m) { m["format"] = "tarball"; }},
      {"field 'step' is missing", [](json& m) { m.erase("step"); }},
      {"field 'step' is not made of non-negative integers", [](json& m) { m["step"] = -1; }},
      {"field 'step' is not made of non-negative integers", [](json& m) { m["step"] = 1.5; }},
      {"field 'step' is not made of non-negative integers",
       [](json& m) { m["step"] = std::numeric_limits<std::uint64_t>::max(); }},
      {"field 'generation' is not a smaller number", [](json& m) { m["generation"] = 1LL << 40; }},
      {"world_size is less than 1", [](json& m) { m["world_size"] = 0; }},
      {"field 'created' is not text", [](json& m) { m["created"] = 5; }},
      {"field 'code' is missing", [](json& m) { m.erase("code"); }},
      {"field 'metric' is missing", [](json& m) { m.erase("metric"); }},
      {"field 'metric' is not a number or null", [](json& m) { m["metric"] = "high"; }},
      {"state is not an object", [](json& m) { m["state"] = {1}; }},
      {"field 'tensors' is not an array", [](json& m) { m["tensors"] = json::object(); }},
      {"tensors[1] is not an object", [](json& m) { m["tensors"][1] = "b"; }},
      {"tensors[0]: field 'shape' is missing", [](json& m) { m["tensors"][0].erase("shape"); }},
      {"tensor 'a': a shape has 1 to 32 dimensions",
       [](json& m) { m["tensors"][0]["shape"] = json::array(); }},
      {"tensor 'a': the shape is too large",
       [](json& m) {
         m["tensors"][0]["shape"] = {1LL << 40, 1LL << 40};
       }},
      {"tensor 'a' is listed twice or not in sorted order",
       [](json& m) { std::swap(m["tensors"][0], m["tensors"][1]); }},
      {"tensor name '' is not allowed: it is empty", [](json& m) { m["tensors"][0]["name"] = ""; }},
      {"it has an empty, '.' or '..' part", [](json& m) { m["tensors"][0]["name"] = "../a"; }},
      {"it has an empty, '.' or '..' part", [](json& m) { m["tensors"][0]["name"] = "/a"; }},
      {"it has an empty, '.' or '..' part", [](json& m) { m["tensors"][0]["name"] = "a/"; }},
      {"it has a control character", [](json& m) { m["tensors"][0]["name"] = "a\nb"; }},
      {"it is longer than 1000 bytes", [&](json& m) { m["tensors"][0]["name"] = long_name; }},
      {"that group holds the state", [](json& m) { m["tensors"][0]["name"] = "training_state/x"; }},
      {"tensor 'a/b' cannot lie inside tensor 'a'",
       [](json& m) {
         m["tensors"][1]["name"] = "a/b";
         m["files"][1]["datasets"][1]["tensor"] = "a/b";
       }},
      {"files[0]: field 'sha256' is missing", [](json& m) { m["files"][0].erase("sha256"); }},
      {"rank-00000.h5: no valid sha256", [](json& m) { m["files"][0]["sha256"] = std::string(64, 'A'); }},
      {"file name '../rank.h5' is not allowed", [](json& m) { m["files"][0]["name"] = "../rank.h5"; }},
      {"file name '/etc/passwd' is not allowed", [](json& m) { m["files"][0]["name"] = "/etc/passwd"; }},
      {"file name '..' is not allowed", [](json& m) { m["files"][0]["name"] = ".."; }},
      {"file name '' is not allowed", [](json& m) { m["files"][0]["name"] = ""; }},
      {"file name 'manifest.json' is not allowed", [](json& m) { m["files"][2]["name"] = "manifest.json"; }},
      {"file name 'COMMITTED' is not allowed", [](json& m) { m["files"][2]["name"] = "COMMITTED"; }},
      {"file rank-00000.h5 is listed twice", [](json& m) { m["files"][2]["name"] = "rank-00000.h5"; }},
      {"files[1].datasets[0]: field 'offset' is missing",
       [](json& m) { m["files"][1]["datasets"][0].erase("offset"); }},
      {"files[0].datasets[0] is not an object", [](json& m) { m["files"][0]["datasets"][0] = 1; }},
      {"dtype '>f4' is not known; this version reads '<f4'",
       [](json& m) { m["files"][0]["datasets"][0]["dtype"] = ">f4"; }},
      {"field 'rows' is not [begin, end]",
       [](json& m) {
         m["files"][0]["datasets"][0]["rows"] = {0, 1, 2};
       }},
      {"field 'rows' is not made of non-negative integers",
       [](json& m) {
         m["files"][0]["datasets"][0]["rows"] = {-1, 2};
       }},
      {"field 'shape' is not in step with 'rows'",
       [](json& m) {
         m["files"][0]["datasets"][0]["shape"] = {3, 2};
       }},
      {"field 'bytes' is not the size of 'shape'",
       [](json& m) { m["files"][0]["datasets"][0]["bytes"] = 12; }},
      {"the shape of dataset 'a' is not that of its tensor's rows",
       [](json& m) {
         m["files"][0]["datasets"][0]["shape"] = {2, 1, 2};
       }},
      {"dataset 'c' belongs to no tensor", [](json& m) { m["files"][0]["datasets"][0]["tensor"] = "c"; }},
      {"dataset 'a' claims rows [2, 4), but the tensor has 3 rows",
       [](json& m) {
         m["files"][0]["datasets"][0]["rows"] = {2, 4};
       }},
      {"tensor 'a': row 1 is stored twice, in rank-00000.h5 and in rank-00001.h5",
       [](json& m) {
         m["files"][1]["datasets"][0]["rows"] = {1, 2};
       }},
      {"tensor 'a': row 2 of 3 is in no file", [](json& m) { m["files"][1]["datasets"].erase(0); }},
      {"tensor 'b': row 0 of 4 is in no file", [](json& m) { m["files"][1]["datasets"].erase(1); }},
      {"dataset 'a' at offset 985 with 16 bytes lies outside the file of 1000 bytes",
       [](json& m) { m["files"][0]["datasets"][0]["offset"] = 985; }},
      {"lies outside the file of 10 bytes", [](json& m) { m["files"][0]["bytes"] = 10; }},
      {"rank-00001.h5: datasets 'a' and 'b' overlap in the file",
       [](json& m) { m["files"][1]["datasets"][1]["offset"] = 107; }},
      {"dataset 'a' has no valid sha256", [](json& m) { m["files"][0]["datasets"][0]["sha256"] = "abc"; }}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.expected);
    json document = sample_json();
    c.change(document);
    const auto parsed = parse_manifest(document.dump());
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(parsed.error().message, HasSubstr(c.expected));
  }
}

// A newer program's checkpoint is none of this one's business; taken for damaged, it would be put aside.
TEST(Manifest, AnotherVersionIsUnavailableAndNotDamaged) {
  json document = sample_json();
  document["version"] = 2;
  const auto parsed = parse_manifest(document.dump());
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(parsed.error().message,
              HasSubstr("format version 2 is not known; this program reads version 1"));
  const std::string other = "muster checkpoint 2\nanything";
  const std::string check = sha256_hex(other.data(), other.size()).substr(0, 16);
  const auto marker = parse_marker(other + "\nmarker check " + check + "\n");
  ASSERT_FALSE(marker);
  EXPECT_EQ(marker.error().code, ErrorCode::kUnavailable);
  // One flipped bit of our own version's marker is damage.
  std::string flipped = marker_text(std::string(64, 'a'));
  flipped[flipped.find('1')] = '3';
  EXPECT_EQ(parse_marker(flipped).error().code, ErrorCode::kCorrupt);
}

TEST(ReadOnlyFile, WhatCannotBeReadIsNotCalledDamaged) {
  const auto file = ReadOnlyFile::open("/proc/self/mem");  // address 0 is not mapped: EIO
  ASSERT_TRUE(file);
  EXPECT_EQ(file->sha256(0, 8).error().code, ErrorCode::kIo);
  EXPECT_EQ(ReadOnlyFile::open("/proc/self/comm")->sha256(0, 4096).error().code, ErrorCode::kCorrupt);
}

TEST(Manifest, WhatIsNoJsonIsRefused) {
  const std::string whole = manifest_to_text(sample()).value();
  for (const std::string& text :
       {std::string(), std::string("{"), whole + "}", std::string("[1]"), std::string("null"),
        std::string("{\"format\":\"\xff\"}"), std::string(100000, '[')}) {
    const auto parsed = parse_manifest(text);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt);
  }
  // A file that was cut off anywhere.
  for (std::size_t size = 0; size + 1 < whole.size(); ++size)
    EXPECT_FALSE(parse_manifest(whole.substr(0, size)));
}

TEST(Manifest, ValuesThatJsonCannotCarryAreRefused) {
  Manifest manifest = sample();
  manifest.state["deep"]["loss"] = std::numeric_limits<double>::infinity();
  const auto text = manifest_to_text(manifest);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(text.error().message, HasSubstr("'/deep/loss' is not a finite number"));
}

TEST(Layout, StepNamesHaveOneSpelling) {
  EXPECT_EQ(step_directory_name(42), "step-000000000042");
  EXPECT_EQ(step_directory_name(42, 2), "step-000000000042.2");
  EXPECT_EQ(step_directory_name(1234567890123), "step-1234567890123");
  EXPECT_EQ(partial_directory_name(3, 42), ".partial-00003-step-000000000042");
  EXPECT_EQ(rank_file_name(7), "rank-00007.h5");
  for (const StepName name : {StepName{0, 1}, StepName{42, 3}, StepName{1234567890123, 1}}) {
    EXPECT_EQ(parse_step_directory_name(step_directory_name(name.step, name.revision)), name);
  }
  for (const char* name :
       {"step-42", "step-0000000000042", "step-", "step-00000000004x", "step-000000000042.1",
        "step-000000000042.", "step-000000000042.02", "step--00000000042", "STEP-000000000042",
        "step-000000000042-2", ".partial-00003-step-000000000042", ""}) {
    EXPECT_FALSE(parse_step_directory_name(name)) << name;
  }
}

TEST(Layout, StepDirectoriesAreSortedAndNothingElseIsTakenForOne) {
  const testing::TemporaryDirectory directory;
  for (const char* name :
       {"step-000000000010", "step-000000000009", "step-000000000010.2", "step-7", "quarantine"}) {
    std::filesystem::create_directory(directory.path() / name);
  }
  ASSERT_TRUE(publish_file(posix_file_ops(), directory.path() / "step-000000000011", "a file"));
  ASSERT_TRUE(publish_file(posix_file_ops(), directory.path() / "step-000000000009" / kMarkerFile, "x"));
  const auto found = step_directories(directory.path());
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 3U);
  EXPECT_EQ(found->at(0).name, (StepName{9, 1}));
  EXPECT_TRUE(found->at(0).committed);
  EXPECT_EQ(found->at(1).name, (StepName{10, 1}));
  EXPECT_FALSE(found->at(1).committed);
  EXPECT_EQ(found->at(2).name, (StepName{10, 2}));
  EXPECT_EQ(step_directories(directory.path() / "none").error().code, ErrorCode::kNotFound);
}

TEST(Layout, AMarkerWithAnyByteChangedIsNone) {
  const std::string hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const std::string text = marker_text(hash);
  EXPECT_EQ(parse_marker(text).value(), hash);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(parse_marker(changed)) << i;
    EXPECT_FALSE(parse_marker(text.substr(0, i)));
  }
  EXPECT_FALSE(parse_marker(text + "x"));
}

TEST(Verify, AnIncompleteOrRenamedDirectoryIsNamed) {
  const testing::TemporaryDirectory directory;
  const auto step = directory.path() / "step-000000000041";
  EXPECT_EQ(verify_checkpoint(step).error().code, ErrorCode::kNotFound);
  std::filesystem::create_directory(step);
  auto verification = verify_checkpoint(step);
  ASSERT_TRUE(verification);
  ASSERT_EQ(verification->problems.size(), 2U);
  EXPECT_EQ(to_text(verification->problems[0]), "COMMITTED is missing");
  EXPECT_EQ(to_text(verification->problems[1]), "manifest.json is missing");
  ASSERT_TRUE(publish_file(posix_file_ops(), step / kManifestFile, manifest_to_text(sample()).value()));
  verification = verify_checkpoint(step);
  ASSERT_TRUE(verification);
  ASSERT_EQ(verification->problems.size(), 5U);
  EXPECT_EQ(to_text(verification->problems[1]),
            "manifest.json is of step 42, but the directory is step-000000000041");
  EXPECT_EQ(to_text(verification->problems[3]), "rank-00001.h5 is missing (in dataset a and 1 more)");
  EXPECT_EQ(to_full_text(verification->problems[3]), "rank-00001.h5 is missing (in dataset a, b)");
  EXPECT_EQ(to_text(verification->problems[4]), "master.h5 is missing");
}

// Of a sound marker the hash counts; of a damaged one nothing but that it is damaged.
TEST(Verify, AMarkerIsEitherBelievedOrDamaged) {
  const testing::TemporaryDirectory directory;
  const auto step = directory.path() / "step-000000000042";
  std::filesystem::create_directory(step);
  FileOps& files = posix_file_ops();
  const std::string manifest = manifest_to_text(sample()).value();
  ASSERT_TRUE(publish_file(files, step / kManifestFile, manifest));
  ASSERT_TRUE(
      publish_file(files, step / kMarkerFile, marker_text(sha256_hex(manifest.data(), manifest.size()))));
  auto check = check_commit(step);
  ASSERT_TRUE(check);
  EXPECT_TRUE(check->problems.empty());
  ASSERT_TRUE(publish_file(files, step / kMarkerFile, marker_text(std::string(64, '0'))));
  check = check_commit(step);
  ASSERT_TRUE(check);
  ASSERT_EQ(check->problems.size(), 1U);
  EXPECT_FALSE(check->manifest);
  EXPECT_TRUE(to_text(check->problems[0]).ends_with("COMMITTED says " + std::string(64, '0')));
  ASSERT_TRUE(publish_file(files, step / kMarkerFile, "x"));
  check = check_commit(step);
  ASSERT_TRUE(check);
  ASSERT_EQ(check->problems.size(), 1U);
  EXPECT_EQ(to_text(check->problems[0]), "COMMITTED is damaged");
  EXPECT_TRUE(check->manifest);
}

TEST(Verify, OfSeveralDatasetsTheFirstIsNamed) {
  EXPECT_EQ(to_text({"rank-00000.h5", "is missing", {}}), "rank-00000.h5 is missing");
  EXPECT_EQ(to_text({"rank-00000.h5", "is missing", {"a"}}), "rank-00000.h5 is missing (in dataset a)");
  EXPECT_EQ(to_text({"rank-00000.h5", "is missing", {"a", "b", "c"}}),
            "rank-00000.h5 is missing (in dataset a and 2 more)");
  EXPECT_EQ(to_full_text({"rank-00000.h5", "is missing", {"a", "b", "c"}}),
            "rank-00000.h5 is missing (in dataset a, b, c)");
}

}  // namespace
}  // namespace muster::checkpoint
