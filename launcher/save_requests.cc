#include "launcher/save_requests.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "common/file_ops.h"
#include "common/run_contract.h"
#include "launcher/random_hex.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kIdBytes = 8;
constexpr std::string_view kSuffix = ".save";

fs::path file_of(const RunDirectory& run, const std::string& id) {
  return run.requests() / (id + std::string(kSuffix));
}

// Best effort: a listing that fails now is repeated soon.
std::vector<std::string> ids_in(const RunDirectory& run) {
  std::vector<std::string> ids;
  std::error_code error;
  for (fs::directory_iterator it(run.requests(), error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(kSuffix)) ids.push_back(name.substr(0, name.size() - kSuffix.size()));
  }
  return ids;
}

}  // namespace

Result<std::string> ask_for_save(const RunDirectory& run) {
  const std::string id = random_hex(kIdBytes);
  MUSTER_TRY(make_directories(posix_file_ops(), run.requests()));
  MUSTER_TRY(publish_file(posix_file_ops(), file_of(run, id), "save\n"));
  return id;
}

void withdraw_request(const RunDirectory& run, const std::string& id) {
  uninterrupted([&] { return posix_file_ops().unlink(file_of(run, id)); });
}

void SaveRequests::drop_all() {
  for (const std::string& id : ids_in(run_)) withdraw_request(run_, id);
}

std::vector<std::string> SaveRequests::pass_on(EventServer& events, int generation) {
  std::vector<std::string> fresh;
  for (const std::string& id : ids_in(run_)) {
    const auto known = passed_on_.find(id);
    if (known != passed_on_.end() && known->second == generation) continue;
    if (!events.send(0, {{"event", contract::event::kSave}, {"request", id}})) return fresh;
    if (known == passed_on_.end()) fresh.push_back(id);
    passed_on_[id] = generation;
  }
  return fresh;
}

std::vector<std::string> SaveRequests::refuse() {
  std::vector<std::string> ids = ids_in(run_);
  for (const std::string& id : ids) withdraw_request(run_, id);
  return ids;
}

void SaveRequests::take_answer(const nlohmann::json& event) {
  const auto requests = event.find("requests");
  if (requests == event.end() || !requests->is_array()) return;
  for (const nlohmann::json& id : *requests) {
    if (!id.is_string() || passed_on_.erase(id.get<std::string>()) == 0) continue;
    withdraw_request(run_, id.get<std::string>());
  }
}

}  // namespace muster
