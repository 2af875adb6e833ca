// A table of task files with errors, and exactly what must be said about each.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace muster::testing {

struct BadTaskFile {
  std::string name;
  std::string text;
  std::string errors;  // one a line, without the file's name: "LINE:COLUMN: MESSAGE"
};

inline void PrintTo(const BadTaskFile& file, std::ostream* out) { *out << file.name; }

std::vector<BadTaskFile> bad_files_and_keys();
std::vector<BadTaskFile> bad_groups();
std::vector<BadTaskFile> bad_trainers();

}  // namespace muster::testing
