#include "launcher/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster {

void Diagnostics::error(SourcePosition position, std::string message) {
  errors_.push_back({position, std::move(message)});
}

std::string Diagnostics::text() const {
  std::vector<Entry> sorted = errors_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry& a, const Entry& b) { return a.position < b.position; });
  std::string text;
  for (const Entry& entry : sorted) {
    if (!text.empty()) text += '\n';
    text += fmt::format("{}:{}:{}: {}", file_, entry.position.line, entry.position.column, entry.message);
  }
  return text;
}

}  // namespace muster
