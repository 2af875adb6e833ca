#include "launcher/run_index.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

namespace muster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kSuffix = ".json";
constexpr std::size_t kRunsShownInErrors = 5;

fs::path home_directory() {
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') return home;
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : "/";
}

fs::path index_directory() { return state_directory() / "runs"; }

fs::path entry_path(std::string_view run_id) { return index_directory() / (std::string(run_id) + ".json"); }

std::optional<IndexedRun> read_entry(const fs::path& path) {
  const auto text = read_text_file(path);
  if (!text) return std::nullopt;
  const json entry = json::parse(*text, nullptr, false);
  if (!entry.is_object()) return std::nullopt;
  for (const char* name : {"run", "path", "task"}) {
    if (!entry.contains(name) || !entry.at(name).is_string()) return std::nullopt;
  }
  if (!entry.contains("created_unix_s") || !entry.at("created_unix_s").is_number()) return std::nullopt;
  IndexedRun indexed{
      {entry.at("run"), entry.at("path").get<std::string>()}, entry.at("task"), entry.at("created_unix_s")};
  const auto info = read_run_info(indexed.run);
  indexed.missing = !info && info.error().code == ErrorCode::kNotFound;
  if (info && info->run_id != indexed.run.run_id) indexed.missing = true;
  return indexed;
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  const auto length = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.begin() + length, b.begin()).first - a.begin());
}

tl::unexpected<Error> unknown_run(std::string_view name, std::vector<IndexedRun> runs) {
  if (runs.empty()) {
    return fail(ErrorCode::kNotFound, "no run '{}': no runs are known yet (index {})", name,
                index_directory().string());
  }
  // Runs are newest first; those that share more of the name come before.
  std::stable_sort(runs.begin(), runs.end(), [&](const IndexedRun& a, const IndexedRun& b) {
    return common_prefix(name, a.run.run_id) > common_prefix(name, b.run.run_id);
  });
  std::string known;
  for (std::size_t i = 0; i < std::min(runs.size(), kRunsShownInErrors); ++i) {
    known += (i == 0 ? "" : ", ") + runs[i].run.run_id;
  }
  return fail(ErrorCode::kNotFound, "no run '{}'; nearest of {} known: {} (`muster list` shows all)", name,
              runs.size(), known);
}

Result<std::optional<RunDirectory>> resolve_directory(std::string_view name) {
  std::error_code error;
  const fs::path path = fs::absolute(fs::path(name), error).lexically_normal();
  if (error || !fs::exists(path / "run.json", error)) return std::nullopt;
  RunDirectory run{"", path.has_filename() ? path : path.parent_path()};
  MUSTER_ASSIGN(const RunInfo info, read_run_info(run));
  run.run_id = info.run_id;
  return run;
}

}  // namespace

fs::path state_directory() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && state[0] == '/') {
    return fs::path(state) / "muster";
  }
  return home_directory() / ".local" / "state" / "muster";
}

Status index_run(const RunDirectory& run, FileOps& ops) {
  MUSTER_ASSIGN(const RunInfo info, read_run_info(run));
  MUSTER_TRY(make_directories(ops, index_directory(), 0700));
  const json entry{{"run", run.run_id},
                   {"path", fs::absolute(run.path).string()},
                   {"task", info.task_name},
                   {"created_unix_s", info.created_unix_s}};
  const std::string text = entry.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  return publish_file(ops, entry_path(run.run_id), text);
}

Status forget_run(std::string_view run_id) { return remove_tree(posix_file_ops(), entry_path(run_id)); }

Result<std::vector<IndexedRun>> indexed_runs() {
  std::vector<IndexedRun> runs;
  std::error_code error;
  for (fs::directory_iterator it(index_directory(), error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().ends_with(kSuffix)) continue;
    if (auto entry = read_entry(it->path())) runs.push_back(*std::move(entry));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::kIo, "cannot list {}: {}", index_directory().string(), error.message());
  }
  std::sort(runs.begin(), runs.end(), [](const IndexedRun& a, const IndexedRun& b) {
    return a.created_unix_s != b.created_unix_s ? a.created_unix_s > b.created_unix_s
                                                : a.run.run_id < b.run.run_id;
  });
  return runs;
}

Result<RunDirectory> resolve_run(std::string_view name) {
  MUSTER_ASSIGN(std::vector<IndexedRun> runs, indexed_runs());
  const auto exact = std::find_if(runs.begin(), runs.end(),
                                  [&](const IndexedRun& indexed) { return indexed.run.run_id == name; });
  if (exact != runs.end()) return exact->run;
  MUSTER_ASSIGN(const auto directory, resolve_directory(name));
  if (directory) return *directory;
  // A task's newest run that is still there; if all are gone, the newest entry.
  const auto of_task = [&](bool missing) {
    return std::find_if(runs.begin(), runs.end(), [&](const IndexedRun& indexed) {
      return indexed.task_name == name && indexed.missing == missing;
    });
  };
  for (const bool missing : {false, true}) {
    if (const auto found = of_task(missing); found != runs.end()) return found->run;
  }
  std::vector<IndexedRun> fitting;
  if (!name.empty()) {
    // Past the task's name: `rm digits`, given twice, must not take the run of a task digits2 the second
    // time.
    std::copy_if(runs.begin(), runs.end(), std::back_inserter(fitting), [&](const IndexedRun& indexed) {
      const std::string& id = indexed.run.run_id;
      return id.starts_with(name) && (id.rfind('-') == std::string::npos || name.size() > id.rfind('-'));
    });
  }
  if (fitting.size() == 1) return fitting.front().run;
  if (fitting.empty()) return unknown_run(name, std::move(runs));
  std::string candidates;
  for (const IndexedRun& indexed : fitting) {
    candidates += (candidates.empty() ? "" : ", ") + indexed.run.run_id;
  }
  return fail(ErrorCode::kInvalidArgument, "'{}' fits {} runs: {}", name, fitting.size(), candidates);
}

}  // namespace muster
