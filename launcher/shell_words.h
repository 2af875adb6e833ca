// Words as a shell would have to be given them, so that what is shown can be pasted. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster {

std::string shell_quoted(const std::string& word);
// The words with blanks between them.
std::string shell_command(const std::vector<std::string>& words);

}  // namespace muster
