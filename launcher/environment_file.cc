#include "launcher/environment_file.h"

#include <nlohmann/json.hpp>

namespace muster {

using nlohmann::json;

Result<EnvironmentVariables> read_environment_file(const std::filesystem::path& path) {
  MUSTER_ASSIGN(const std::string text, read_text_file(path));
  const json content = json::parse(text, nullptr, false);
  if (!content.is_object() || !content.contains("variables") || !content.at("variables").is_object()) {
    return fail(ErrorCode::kInvalidArgument, R"({}: not of the form {{"variables": {{"NAME": "VALUE"}}}})",
                path.string());
  }
  EnvironmentVariables variables;
  for (const auto& [name, value] : content.at("variables").items()) {
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos) {
      return fail(ErrorCode::kInvalidArgument, "{}: '{}' cannot be a variable's name", path.string(), name);
    }
    if (!value.is_string() || value.get_ref<const std::string&>().find('\0') != std::string::npos) {
      return fail(ErrorCode::kInvalidArgument, "{}: the value of {} must be a string without NUL",
                  path.string(), name);
    }
    variables.emplace_back(name, value.get<std::string>());
  }
  return variables;
}

}  // namespace muster
