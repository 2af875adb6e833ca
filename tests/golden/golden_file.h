// Texts that must stay the same word for word: files beside this one. Where this clone lies is written as
// SOURCE. MUSTER_UPDATE_GOLDEN=1 rewrites the files; look at the difference before you commit.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace muster::testing {

inline const std::string kSource = MUSTER_SOURCE_DIR;

inline void expect_golden(const std::string& name, std::string text) {
  for (auto at = text.find(kSource); at != std::string::npos; at = text.find(kSource, at)) {
    text.replace(at, kSource.size(), "SOURCE");
  }
  const std::string path = kSource + "/tests/golden/" + name;
  if (std::getenv("MUSTER_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str()) << path;
}

}  // namespace muster::testing
