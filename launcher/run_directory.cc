#include "launcher/run_directory.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "common/clock.h"
#include "common/run_contract.h"
#include "launcher/random_hex.h"
#include "launcher/run_index.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kIdBytes = 4;
constexpr std::size_t kChannelKeyBytes = 32;

std::string to_text(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

json info_to_json(const RunInfo& info) {
  json fingerprint = json::array();  // an array keeps the task file's order
  for (const auto& [key, value] : info.fingerprint) fingerprint.push_back(json::array({key, value}));
  return {{"run", info.run_id},
          {"task", info.task_name},
          {"task_file", info.task_file},
          {"created_unix_s", info.created_unix_s},
          {"created", iso8601_utc(info.created_unix_s)},
          {"fingerprint", fingerprint}};
}

std::optional<RunInfo> info_from_json(const json& value) {
  if (!value.is_object()) return std::nullopt;
  for (const char* name : {"run", "task", "task_file"}) {
    if (!value.contains(name) || !value.at(name).is_string()) return std::nullopt;
  }
  if (!value.contains("created_unix_s") || !value.at("created_unix_s").is_number()) return std::nullopt;
  if (!value.contains("fingerprint") || !value.at("fingerprint").is_array()) return std::nullopt;
  RunInfo info{value.at("run"), value.at("task"), value.at("task_file"), value.at("created_unix_s"), {}};
  for (const json& entry : value.at("fingerprint")) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_string()) {
      return std::nullopt;
    }
    info.fingerprint.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
  }
  return info;
}

// Whether `name` is <task name>-<8 hex digits>.
bool is_run_id_of(const std::string& name, const std::string& task_name) {
  const std::string prefix = task_name + "-";
  return name.size() == prefix.size() + 2 * kIdBytes && name.starts_with(prefix) &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                     [](unsigned char c) { return std::isxdigit(c) != 0; });
}

Status write_text(FileOps& ops, const fs::path& path, const std::string& text, mode_t mode = 0644) {
  return write_new_file(ops, path, as_byte_span(text), mode);
}

Status fill_run_directory(FileOps& ops, const RunDirectory& staged, const RunInfo& info, const Plan& plan,
                          const std::string& task_text) {
  for (const fs::path& directory :
       {staged.path, staged.checkpoints(), staged.path / "attempts", staged.logs()}) {
    MUSTER_TRY(make_directories(ops, directory));
  }
  MUSTER_TRY(write_text(ops, staged.task(), task_text, 0600));
  MUSTER_TRY(write_text(ops, staged.plan(), to_text(plan_to_json(plan))));
  MUSTER_TRY(write_text(ops, staged.channel_key(), random_hex(kChannelKeyBytes) + "\n", 0600));
  MUSTER_TRY(write_text(ops, staged.run_info(), to_text(info_to_json(info))));
  return sync_directory(ops, staged.path);
}

std::optional<std::string> value_of(const Fingerprint& fingerprint, std::string_view key) {
  const auto found = std::find_if(fingerprint.begin(), fingerprint.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  return found == fingerprint.end() ? std::nullopt : std::optional(found->second);
}

// `now`, with what was known before of a checkpoint that is not there any more.
Fingerprint with_known_identity(const Fingerprint& before, Fingerprint now) {
  constexpr std::string_view kPath = "trainer.init_from";
  const auto known = value_of(before, kInitFromIdentity);
  if (!known || value_of(now, kInitFromIdentity) || value_of(now, kPath) != value_of(before, kPath))
    return now;
  now.emplace_back(kInitFromIdentity, *known);
  std::sort(now.begin(), now.end());
  return now;
}

}  // namespace

Result<std::optional<RunDirectory>> find_run(const Plan& plan) {
  std::optional<RunDirectory> newest;
  double newest_created_s = 0;
  std::error_code error;
  for (fs::directory_iterator it(plan.checkpoint_root, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!is_run_id_of(name, plan.task_name)) continue;
    RunDirectory run{name, it->path()};
    const auto info = read_run_info(run);
    // Not a run directory, whatever its name; but a damaged one must not silently start a run anew.
    if (!info && info.error().code == ErrorCode::kNotFound) continue;
    MUSTER_TRY(info);
    if (info->task_name != plan.task_name) continue;
    if (!newest || info->created_unix_s > newest_created_s) {
      newest = std::move(run);
      newest_created_s = info->created_unix_s;
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::kIo, "cannot list {}: {}", plan.checkpoint_root, error.message());
  }
  return newest;
}

Result<RunDirectory> create_run(const Plan& plan, const std::string& task_text, FileOps& ops) {
  const fs::path root = plan.checkpoint_root;
  MUSTER_TRY(make_directories(ops, root));
  const RunInfo info{plan.task_name + "-" + random_hex(kIdBytes), plan.task_name, plan.task_file,
                     unix_time_s(), plan.result_fingerprint};
  const RunDirectory run{info.run_id, root / info.run_id};
  const RunDirectory staged{info.run_id, root / ("." + info.run_id + ".new")};
  std::error_code error;
  if (fs::exists(run.path, error)) {
    return fail(ErrorCode::kAlreadyExists, "{} is there already; start again for another run id",
                run.path.string());
  }
  Status status = fill_run_directory(ops, staged, info, plan, task_text);
  if (status) status = rename_durably(ops, staged.path, run.path);
  if (status) status = index_run(run, ops);
  if (status) return run;
  // Best effort: the error that matters is the first one.
  static_cast<void>(forget_run(info.run_id));
  static_cast<void>(remove_tree(ops, staged.path));
  static_cast<void>(remove_tree(ops, run.path));
  return tl::unexpected<Error>(std::move(status).error());
}

Result<RunInfo> read_run_info(const RunDirectory& run) {
  auto text = read_text_file(run.run_info());
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return fail(ErrorCode::kNotFound, "{} is not a run directory: it has no run.json", run.path.string());
  }
  MUSTER_TRY(text);
  auto info = info_from_json(json::parse(*text, nullptr, false));
  if (!info) return fail(ErrorCode::kCorrupt, "{} is damaged", run.run_info().string());
  return *std::move(info);
}

std::vector<FingerprintDifference> fingerprint_differences(const Fingerprint& before,
                                                           const Fingerprint& now) {
  const Fingerprint known_now = with_known_identity(before, now);
  std::vector<FingerprintDifference> differences;
  std::map<std::string, std::string> rest(known_now.begin(), known_now.end());
  for (const auto& [key, value] : before) {
    const auto found = rest.find(key);
    const std::string current = found == rest.end() ? "" : found->second;
    if (found == rest.end() || current != value) differences.push_back({key, value, current});
    if (found != rest.end()) rest.erase(found);
  }
  for (const auto& [key, value] : now) {
    if (rest.contains(key)) differences.push_back({key, "", value});
  }
  return differences;
}

Status update_run(const RunDirectory& run, const Plan& plan, const std::string& task_text, FileOps& ops) {
  MUSTER_ASSIGN(RunInfo info, read_run_info(run));
  info.task_file = plan.task_file;
  info.fingerprint = with_known_identity(info.fingerprint, plan.result_fingerprint);
  MUSTER_TRY(publish_file(ops, run.task(), task_text, 0600));
  MUSTER_TRY(publish_file(ops, run.plan(), to_text(plan_to_json(plan))));
  return publish_file(ops, run.run_info(), to_text(info_to_json(info)));
}

}  // namespace muster
