// Words as a POSIX shell has to be given them. Pure.
#pragma once

#include <string>

namespace muster {

// The word itself where that is safe, else in single quotes.
std::string shell_quoted(const std::string& word);

}  // namespace muster
