#include "trainer/checkpoint/collective.h"

#include <optional>
#include <string>

namespace muster::checkpoint {
namespace {

using nlohmann::json;

std::string encode(const Result<json>& mine) {
  const json message =
      mine ? json{{"value", *mine}}
           : json{{"code", static_cast<int>(mine.error().code)}, {"error", mine.error().message}};
  // Paths in error messages need not be UTF-8.
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

ErrorCode code_of(const json& message) {
  const int code = message.value("code", static_cast<int>(ErrorCode::kInternal));
  const bool known = code >= 0 && code <= static_cast<int>(ErrorCode::kInternal);
  return known ? static_cast<ErrorCode>(code) : ErrorCode::kInternal;
}

Result<std::vector<json>> decode(const std::vector<std::string>& texts) {
  std::vector<json> values;
  std::optional<Error> first;
  int failed = 0;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    json message = json::parse(texts[rank]);
    if (message.contains("value")) {
      values.push_back(std::move(message["value"]));
      continue;
    }
    if (++failed > 1) continue;
    first = Error{code_of(message), fmt::format("rank {}: {}", rank, message.at("error").get<std::string>())};
  }
  if (!first) return values;
  if (failed > 1)
    first->message += fmt::format(" (and {} more of {} ranks failed)", failed - 1, texts.size());
  return tl::unexpected(*std::move(first));
}

Result<json> decode_rank_0(const std::vector<std::string>& texts) {
  json message = json::parse(texts.front());
  if (message.contains("value")) return std::move(message["value"]);
  return tl::unexpected(Error{code_of(message), message.at("error").get<std::string>()});
}

template <class Decode>
auto exchange(const Group& group, const Result<json>& mine, const Decode& decode)
    -> decltype(decode(std::vector<std::string>())) {
  MUSTER_ASSIGN(const std::vector<std::string> texts, group.all_gather_text(encode(mine)));
  if (texts.size() != static_cast<std::size_t>(group.size)) {
    return fail(ErrorCode::kInternal, "{} ranks answered, not {}", texts.size(), group.size);
  }
  try {
    return decode(texts);
  } catch (const json::exception& error) {
    return fail(ErrorCode::kInternal, "a rank sent a malformed answer: {}", error.what());
  }
}

}  // namespace

Result<std::vector<json>> agree(const Group& group, const Result<json>& mine) {
  return exchange(group, mine, decode);
}

Result<json> follow_rank_0(const Group& group, const Result<json>& mine) {
  return exchange(group, mine, decode_rank_0);
}

}  // namespace muster::checkpoint
