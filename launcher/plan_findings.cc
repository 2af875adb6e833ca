#include "launcher/plan_findings.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster::planning {

void Findings::add(const std::string& key, bool applies, const std::string& message) {
  if (!applies) return;
  const auto given = spec_.positions.find(key);
  findings_.emplace_back(given == spec_.positions.end() ? SourcePosition{} : given->second,
                         fmt::format("{}: {}", key, message));
}

std::vector<std::string> Findings::lines() {
  std::stable_sort(findings_.begin(), findings_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> lines;
  for (const auto& [position, message] : findings_) {
    lines.push_back(fmt::format("{}:{}:{}: {}", spec_.shown_file, position.line, position.column, message));
  }
  return lines;
}

}  // namespace muster::planning
