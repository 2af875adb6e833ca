// Findings about single keys of a task file, each told with the key's place. Private to the plan.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/task_spec.h"

namespace muster::planning {

class Findings {
 public:
  // `spec` outlives this.
  explicit Findings(const TaskSpec& spec) : spec_(spec) {}

  // At the key's place; for a key that the file does not give, at its beginning.
  void add(const std::string& key, bool applies, const std::string& message);

  // `file:line:column: key: message`, in file order.
  std::vector<std::string> lines();

 private:
  const TaskSpec& spec_;
  std::vector<std::pair<SourcePosition, std::string>> findings_;
};

}  // namespace muster::planning
