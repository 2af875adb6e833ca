// Sizes of memory and generic resources, as Slurm writes them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "slurm/gres.h"
#include "slurm/memory_amount.h"

namespace muster::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Per = MemoryAmount::Per;

constexpr std::uint64_t kMi = 1U << 20;

TEST(MemoryAmount, UnitsAndWhatTheyCountFor) {
  EXPECT_EQ(parse_memory_amount("4096"), (MemoryAmount{4096 * kMi, Per::kNotSaid}));
  EXPECT_EQ(parse_memory_amount("4000M"), (MemoryAmount{4000 * kMi, Per::kNotSaid}));
  EXPECT_EQ(parse_memory_amount("4G"), (MemoryAmount{4096 * kMi, Per::kNotSaid}));
  EXPECT_EQ(parse_memory_amount("16544k"), (MemoryAmount{16'941'056, Per::kNotSaid}));
  EXPECT_EQ(parse_memory_amount("2T"), (MemoryAmount{2 * kMi * kMi, Per::kNotSaid}));
  EXPECT_EQ(parse_memory_amount("64Mc"), (MemoryAmount{64 * kMi, Per::kCpu}));
  EXPECT_EQ(parse_memory_amount("4Gn"), (MemoryAmount{4096 * kMi, Per::kNode}));
  EXPECT_EQ(parse_memory_amount("0n"), (MemoryAmount{0, Per::kNode}));
  EXPECT_EQ(parse_memory_amount("1.5G"), (MemoryAmount{1536 * kMi, Per::kNotSaid}));
  EXPECT_EQ(parse_memory_amount("0.50M"), (MemoryAmount{kMi / 2, Per::kNotSaid}));
}

TEST(MemoryAmount, OtherTextsAreNone) {
  for (const char* text : {"", "c", "n", "M", "-1", "+1", "1E9", "4 G", "4GB", "UNLIMITED", "N/A", "?", "1.",
                           ".5", "1..5", "99999999999P", "18446744073709551616", "4Gx", "0x10"}) {
    EXPECT_EQ(parse_memory_amount(text), std::nullopt) << text;
  }
}

TEST(Gres, ReadsWhatNodesAndJobsHave) {
  EXPECT_THAT(parse_gres("").value(), IsEmpty());
  EXPECT_THAT(parse_gres("(null)").value(), IsEmpty());
  EXPECT_THAT(parse_gres("gpu:a100:4(S:0-1),gpu:2(IDX:0,1),shard:8").value(),
              ElementsAre(Gres{"gpu", "a100", 4}, Gres{"gpu", "", 2}, Gres{"shard", "", 8}));
  EXPECT_THAT(parse_gres("gpu:a100:2(IDX:0-1),gpu:h100:0(IDX:N/A)").value(),
              ElementsAre(Gres{"gpu", "a100", 2}, Gres{"gpu", "h100", 0}));
  EXPECT_THAT(parse_gres("gpu").value(), ElementsAre(Gres{"gpu", "", 1}));
  EXPECT_THAT(parse_gres("gpu:v100").value(), ElementsAre(Gres{"gpu", "v100", 1}));
  EXPECT_THAT(parse_gres("bandwidth:lustre:no_consume:4K").value(),
              ElementsAre(Gres{"bandwidth", "lustre", 4096}));
  EXPECT_THAT(parse_gres("gres:gpu:a100:1").value(), ElementsAre(Gres{"gpu", "a100", 1}));
  EXPECT_THAT(parse_gres("gres/gpu:nvidia_a100_1g.5gb:7").value(),
              ElementsAre(Gres{"gpu", "nvidia_a100_1g.5gb", 7}));
}

TEST(Gres, OtherTextsAreRefused) {
  for (const char* text :
       {",", "gpu,", ":4", "gpu::4", "gpu:a:b", "gpu:a:b:4", "gpu:4(S:0", "gpu:4)", "gpu:4x(", "a b:1",
        "gpu:a100:-1", "gpu:a100:99999999999999999999", "gpu:a|b:1", "gpu:a100:4G4"}) {
    EXPECT_FALSE(parse_gres(text)) << text;
  }
  EXPECT_EQ(parse_gres("gpu:a:b").error().message,
            "'gpu:a:b' is no list of generic resources like gpu:a100:4");
}

TEST(Gres, WhatIsWrittenIsRead) {
  const unsigned seed = 20260711;
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::vector<Gres> all;
    std::string text;
    for (auto i = 1 + random() % 4; i > 0; --i) {
      Gres gres{random() % 2 == 0 ? "gpu" : "shard", random() % 2 == 0 ? "" : "x_1.5g-b", random() % 100};
      if (!text.empty()) text += ',';
      text += gres.type.empty() ? fmt::format("{}:{}", gres.name, gres.count)
                                : fmt::format("{}:{}:{}", gres.name, gres.type, gres.count);
      if (random() % 3 == 0) text += "(IDX:0,2-3)";
      all.push_back(std::move(gres));
    }
    EXPECT_EQ(parse_gres(text).value(), all) << text;
    const std::string cut = text.substr(0, random() % text.size());  // read or refused, never worse
    parse_gres(cut);
    parse_memory_amount(cut);
  }
}

}  // namespace
}  // namespace muster::slurm
