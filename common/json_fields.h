// Reading members of JSON that somebody else wrote: a member that is absent or of another type is the
// default, never an exception.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace muster {

inline std::string text_field(const nlohmann::json& object, const char* name, std::string otherwise = "") {
  const auto member = object.is_object() ? object.find(name) : object.end();
  return member != object.end() && member->is_string() ? member->get<std::string>() : std::move(otherwise);
}

inline std::int64_t integer_field(const nlohmann::json& object, const char* name, std::int64_t otherwise) {
  const auto member = object.is_object() ? object.find(name) : object.end();
  return member != object.end() && member->is_number_integer() ? member->get<std::int64_t>() : otherwise;
}

inline double number_field(const nlohmann::json& object, const char* name, double otherwise) {
  const auto member = object.is_object() ? object.find(name) : object.end();
  return member != object.end() && member->is_number() ? member->get<double>() : otherwise;
}

}  // namespace muster
