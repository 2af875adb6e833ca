#include "common/checkpoint/layout.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "common/sha256.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kMarkerName = "muster checkpoint ";
constexpr std::string_view kMarkerHead = "muster checkpoint 1\nmanifest.json sha256 ";
constexpr std::string_view kMarkerCheck = "\nmarker check ";

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string checked(std::string_view text) {
  return fmt::format("{}{}{}\n", text, kMarkerCheck, sha256_hex(text.data(), text.size()).substr(0, 16));
}

}  // namespace

std::string step_directory_name(std::int64_t step, int revision) {
  std::string name = fmt::format("{}{:012}", kStepPrefix, step);
  if (revision > 1) name += fmt::format(".{}", revision);
  return name;
}

std::string partial_directory_name(std::int32_t generation, std::int64_t step) {
  return fmt::format("{}{:05}-{}", kPartialPrefix, generation, step_directory_name(step));
}

std::optional<std::int32_t> generation_of_partial(std::string_view name) {
  if (!name.starts_with(kPartialPrefix)) return std::nullopt;
  name.remove_prefix(kPartialPrefix.size());
  return parse_number<std::int32_t>(name.substr(0, name.find('-')));
}

std::string rank_file_name(int rank) { return fmt::format("rank-{:05}.h5", rank); }

std::optional<StepName> parse_step_directory_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::size_t dot = name.find('.');
  const std::string_view digits = name.substr(0, dot).substr(kStepPrefix.size());
  const auto step = parse_number<std::int64_t>(digits);
  const auto revision = dot == std::string_view::npos ? 1 : parse_number<int>(name.substr(dot + 1));
  // Only one spelling names a step: otherwise two directories could claim the same one.
  if (!step || !revision || *step < 0 || name != step_directory_name(*step, *revision)) return std::nullopt;
  return StepName{*step, *revision};
}

Result<std::vector<StepDirectory>> step_directories(const fs::path& directory, FileOps& ops) {
  std::vector<StepDirectory> found;
  std::error_code error;
  fs::directory_iterator it(directory, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    const auto name = parse_step_directory_name(it->path().filename().string());
    if (!name) continue;
    std::error_code unknown;
    const bool is_directory = it->is_directory(unknown);
    if (unknown && unknown != std::errc::no_such_file_or_directory) {
      return fail(ErrorCode::kIo, "cannot look at {}: {}", it->path().string(), unknown.message());
    }
    if (!is_directory) continue;
    MUSTER_ASSIGN(const bool committed, file_exists(ops, it->path() / kMarkerFile));
    found.push_back({*name, it->path(), committed});
  }
  if (error) {
    const ErrorCode code =
        error == std::errc::no_such_file_or_directory ? ErrorCode::kNotFound : ErrorCode::kIo;
    return fail(code, "cannot list the checkpoint directory {}: {}", directory.string(), error.message());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

std::string marker_text(std::string_view manifest_sha256) {
  return checked(fmt::format("{}{}", kMarkerHead, manifest_sha256));
}

Result<std::string> parse_marker(std::string_view text) {
  if (text.size() > kMarkerHead.size() + 64) {
    const std::string_view hash = text.substr(kMarkerHead.size(), 64);
    if (is_sha256_hex(hash) && text == marker_text(hash)) return std::string(hash);
  }
  // Every version's marker ends with a check of what stands before it.
  const std::size_t end = text.rfind(kMarkerCheck);
  if (text.starts_with(kMarkerName) && end != std::string_view::npos &&
      text == checked(text.substr(0, end))) {
    const std::string_view rest = text.substr(kMarkerName.size());
    return fail(ErrorCode::kUnavailable, "a checkpoint of format version {}; this program reads version 1",
                rest.substr(0, rest.find('\n')));
  }
  return fail(ErrorCode::kCorrupt, "not a well-formed marker");
}

bool is_sha256_hex(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace muster::checkpoint
