// A variable of the ranks' environment, and how its value may be shown.
#pragma once

#include <string>
#include <string_view>

namespace muster {

struct EnvironmentVariable {
  std::string name;
  std::string value;
  bool secret = false;  // shown as ***
  bool operator==(const EnvironmentVariable&) const = default;
};

// True if a value under this name, or of this form (a URL with a password), must not be shown.
bool looks_secret(std::string_view name, std::string_view value);

// [A-Za-z_][A-Za-z0-9_]*
bool is_environment_name(std::string_view name);

// True for a variable that the launcher, MPI or the scheduler gives to every rank: a task may not set it.
bool is_reserved_environment_name(std::string_view name);

}  // namespace muster
