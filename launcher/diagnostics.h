// Errors in a file that a person wrote, each with its place: all are collected, then shown in file order.
#pragma once

#include <string>
#include <vector>

namespace muster {

// Both count from 1; a column counts bytes, as compilers do.
struct SourcePosition {
  int line = 1;
  int column = 1;
  bool operator==(const SourcePosition&) const = default;
  bool operator<(const SourcePosition& other) const {
    return line != other.line ? line < other.line : column < other.column;
  }
};

class Diagnostics {
 public:
  explicit Diagnostics(std::string file) : file_(std::move(file)) {}

  void error(SourcePosition position, std::string message);
  bool empty() const { return errors_.empty(); }

  // One line an error, `file:line:column: message`, sorted by place, without a final newline.
  std::string text() const;

 private:
  struct Entry {
    SourcePosition position;
    std::string message;
  };
  std::string file_;
  std::vector<Entry> errors_;
};

}  // namespace muster
