#include "launcher/allocation_request.h"

#include <fmt/format.h>

#include <cctype>
#include <string_view>

namespace muster {

namespace {

std::optional<std::string_view> unfit_part(const std::string& value) {
  for (const unsigned char c : value) {
    if (c == '\n' || c == '\r') return "a line break";
    if (c == ' ') return "a space";
    if (c == '"' || c == '\'') return "a quotation mark";
    if (c == '#') return "a #";
    if (c == '\\') return "a backslash";
    if (std::iscntrl(c) != 0) return "a control character";
  }
  return std::nullopt;
}

}  // namespace

std::string gres_of(const AllocationRequest& request) {
  if (request.gpus_per_worker == 0) return "";
  if (request.gres_type.empty()) return fmt::format("gpu:{}", request.gpus_per_worker);
  return fmt::format("gpu:{}:{}", request.gres_type, request.gpus_per_worker);
}

std::string script_fault(const std::string& value) {
  const auto unfit = unfit_part(value);
  if (!unfit) return "";
  std::string shown = value;
  for (char& c : shown) c = std::iscntrl(static_cast<unsigned char>(c)) != 0 ? '?' : c;
  return fmt::format("found '{}'; options of a batch script cannot hold {}", shown, *unfit);
}

}  // namespace muster
