// Tables with a header and '|' between the columns: `sacctmgr -P`, `sacct -P`, `squeue -o "%A|%T"`. Pure.
//
// Nothing is escaped there, so a '|' within a value would shift the columns: ask for the one column that is
// free text (a comment, a job's name) last, which takes what is left of its line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster::slurm {

class ParsableTable {
 public:
  std::size_t rows() const { return rows_.size(); }
  bool has(std::string_view column) const;
  // Columns are named in upper or lower case. Empty: no such column.
  std::string_view at(std::size_t row, std::string_view column) const;

 private:
  friend Result<ParsableTable> parse_parsable_table(std::string_view text,
                                                    std::span<const std::string_view> needed);
  std::size_t index_of(std::string_view column) const;

  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// The header is the first line that names all of `needed`; what stands before it (a login banner) is passed
// over. kInvalidArgument: there is no such line, or a row has fewer fields than the header.
Result<ParsableTable> parse_parsable_table(std::string_view text, std::span<const std::string_view> needed);

}  // namespace muster::slurm
