// "Did you mean …?": the known name that a misspelt one most likely stands for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster {

// Edits (insert, delete, replace, swap two neighbours) that lead from one name to the other, upper and lower
// case being equal, and '-' and '_' too.
int edit_distance(std::string_view a, std::string_view b);

// The closest of `known` within a third of the name's length (at least one edit); the first of equals.
std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> known);

}  // namespace muster
