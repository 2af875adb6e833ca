#include "slurm/parsable_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace muster::slurm {

namespace {

std::vector<std::string> split(std::string_view line, std::size_t fields_max) {
  std::vector<std::string> fields;
  while (fields.size() + 1 < fields_max) {
    const std::size_t bar = line.find('|');
    if (bar == std::string_view::npos) break;
    fields.emplace_back(line.substr(0, bar));
    line.remove_prefix(bar + 1);
  }
  fields.emplace_back(line);
  return fields;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::size_t index_in(const std::vector<std::string>& columns, std::string_view column) {
  const auto at = std::find_if(columns.begin(), columns.end(),
                               [&](const std::string& name) { return equal_ignoring_case(name, column); });
  return static_cast<std::size_t>(at - columns.begin());
}

}  // namespace

std::size_t ParsableTable::index_of(std::string_view column) const { return index_in(columns_, column); }

bool ParsableTable::has(std::string_view column) const { return index_of(column) < columns_.size(); }

std::string_view ParsableTable::at(std::size_t row, std::string_view column) const {
  const std::size_t index = index_of(column);
  return index < columns_.size() ? std::string_view(rows_[row][index]) : std::string_view{};
}

Result<ParsableTable> parse_parsable_table(std::string_view text, std::span<const std::string_view> needed) {
  constexpr std::size_t kAnyNumber = static_cast<std::size_t>(-1);
  ParsableTable table;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (table.columns_.empty()) {
      std::vector<std::string> columns = split(line, kAnyNumber);
      const auto is_there = [&](std::string_view name) { return index_in(columns, name) < columns.size(); };
      if (std::all_of(needed.begin(), needed.end(), is_there)) table.columns_ = std::move(columns);
      continue;
    }
    std::vector<std::string> fields = split(line, table.columns_.size());
    if (fields.size() != table.columns_.size()) {
      return fail(ErrorCode::kInvalidArgument, "line {} has {} fields where the header has {}: {:.120}",
                  number, fields.size(), table.columns_.size(), line);
    }
    table.rows_.push_back(std::move(fields));
  }
  if (table.columns_.empty())
    return fail(ErrorCode::kInvalidArgument, "no line names the columns {}", fmt::join(needed, ", "));
  return table;
}

}  // namespace muster::slurm
