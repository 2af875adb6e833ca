#include "trainer/agreement.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

namespace muster {
namespace {

// "" for success, else "<code>\n<message>".
std::string encode(const Status& status) {
  if (status) return "";
  return fmt::format("{}\n{}", static_cast<int>(status.error().code), status.error().message);
}

Error decode(std::string_view text) {
  const std::size_t newline = text.find('\n');
  int code = 0;
  std::from_chars(text.data(), text.data() + newline, code);
  return Error{static_cast<ErrorCode>(code), std::string(text.substr(newline + 1))};
}

// A rank that leaves after an error aborts the communicator. Nobody may do so before all have the outcome:
// whoever is through this barrier, or fails in it, knows that everybody has.
void wait_for_everybody(comm::Communicator& communicator, const comm::CollectiveOptions& options) {
  [[maybe_unused]] const Status ignored = communicator.barrier(options)->wait();
}

}  // namespace

Status agree(comm::Communicator& communicator, const Status& mine, const comm::CollectiveOptions& options) {
  MUSTER_ASSIGN(const std::vector<std::string> all,
                comm::all_gather_text(communicator, encode(mine), options));
  const auto failed = std::find_if(all.begin(), all.end(), [](const auto& text) { return !text.empty(); });
  if (failed == all.end()) return {};
  wait_for_everybody(communicator, options);
  Error error = decode(*failed);
  const bool found_together =
      std::all_of(all.begin(), all.end(), [&](const auto& t) { return t == *failed; });
  if (found_together) return tl::unexpected<Error>(std::move(error));
  return fail(error.code, "rank {}: {}", failed - all.begin(), error.message);
}

Status follow_rank_0(comm::Communicator& communicator, const Status& mine,
                     const comm::CollectiveOptions& options) {
  MUSTER_ASSIGN(const std::string outcome, comm::broadcast_text(communicator, encode(mine), 0, options));
  if (outcome.empty()) return {};
  wait_for_everybody(communicator, options);
  return tl::unexpected<Error>(decode(outcome));
}

Status require_equal(comm::Communicator& communicator, std::string_view what, std::string_view mine,
                     const comm::CollectiveOptions& options) {
  MUSTER_ASSIGN(const std::vector<std::string> all, comm::all_gather_text(communicator, mine, options));
  std::vector<std::size_t> different;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) different.push_back(rank);
  }
  if (different.empty()) return {};
  wait_for_everybody(communicator, options);
  return fail(ErrorCode::kMismatch, "{} differs: rank 0 has '{}', rank {} has '{}' (different: rank {})",
              what, all[0], different[0], all[different[0]], fmt::join(different, ", "));
}

}  // namespace muster
