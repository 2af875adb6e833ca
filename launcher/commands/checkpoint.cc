// muster checkpoint list|show|verify|hash DIR looks at checkpoints by their manifests, without HDF5.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "common/checkpoint/hash.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/verify.h"
#include "common/file_ops.h"
#include "common/run_contract.h"
#include "launcher/checkpoint_target.h"
#include "launcher/commands/command_line.h"
#include "launcher/commands/commands.h"

namespace muster::commands {

namespace po = boost::program_options;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

using checkpoint::Manifest;
using checkpoint::Problem;
using checkpoint::StepDirectory;

std::string size_text(std::int64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string metric_text(const std::optional<double>& metric) {
  return metric ? fmt::format("{:.6g}", *metric) : "-";
}

json metric_json(const std::optional<double>& metric) { return metric ? json(*metric) : json(); }

// Names and messages may hold bytes that are not UTF-8.
void print_json(const json& value) {
  fmt::print("{}\n", value.dump(2, ' ', false, json::error_handler_t::replace));
}

std::string joined(const std::vector<Problem>& problems) {
  std::vector<std::string> texts;
  for (const Problem& problem : problems) texts.push_back(to_text(problem));
  return fmt::format("{}", fmt::join(texts, "; "));
}

// ---- list ----------------------------------------------------------------------------------------------

struct Listed {
  std::string name;
  std::string state;  // committed, not committed, damaged, quarantined
  std::string note;   // what is damaged
  std::optional<Manifest> manifest;
};

Result<Listed> describe(const StepDirectory& directory) {
  Listed listed{directory.path.filename().string(), "not committed", "", std::nullopt};
  if (!directory.committed) return listed;
  MUSTER_ASSIGN(checkpoint::ManifestCheck check, checkpoint::check_commit(directory.path));
  listed.state = check.problems.empty() ? "committed" : "damaged";
  listed.note = joined(check.problems);
  listed.manifest = std::move(check.manifest);
  return listed;
}

Result<std::vector<Listed>> quarantined_in(const fs::path& directory) {
  std::vector<Listed> found;
  std::error_code error;
  for (fs::directory_iterator it(directory / checkpoint::kQuarantineDirectory, error), end;
       !error && it != end; it.increment(error)) {
    std::string reason = read_text_file(it->path() / checkpoint::kReasonFile).value_or("no reason recorded");
    while (!reason.empty() && reason.back() == '\n') reason.pop_back();
    for (std::size_t at = 0; (at = reason.find('\n', at)) != std::string::npos;) reason.replace(at, 1, "; ");
    const std::string name =
        fmt::format("{}/{}", checkpoint::kQuarantineDirectory, it->path().filename().string());
    found.push_back({name, "quarantined", std::move(reason), std::nullopt});
  }
  std::sort(found.begin(), found.end(), [](const Listed& a, const Listed& b) { return a.name < b.name; });
  return found;
}

json to_json(const Listed& listed) {
  json object{{"name", listed.name}, {"state", listed.state}};
  if (!listed.note.empty()) object["note"] = listed.note;
  if (listed.manifest) {
    object["step"] = listed.manifest->step;
    object["metric"] = metric_json(listed.manifest->metric);
    object["bytes"] = total_bytes(*listed.manifest);
    object["created"] = listed.manifest->created;
    object["world_size"] = listed.manifest->world_size;
    object["generation"] = listed.manifest->generation;
  }
  return object;
}

void print_table(const std::vector<Listed>& all) {
  std::size_t width = 0;
  for (const Listed& listed : all) width = std::max(width, listed.name.size());
  fmt::print("{:<{}} {:>10} {:>11}  {:<24} {:>5}  {}\n", "CHECKPOINT", width, "METRIC", "SIZE", "CREATED",
             "RANKS", "STATE");
  for (const Listed& listed : all) {
    const auto& manifest = listed.manifest;
    fmt::print("{:<{}} {:>10} {:>11}  {:<24} {:>5}  {}{}{}\n", listed.name, width,
               manifest ? metric_text(manifest->metric) : "-",
               manifest ? size_text(total_bytes(*manifest)) : "-", manifest ? manifest->created : "-",
               manifest ? std::to_string(manifest->world_size) : "-", listed.state,
               listed.note.empty() ? "" : ": ", listed.note);
  }
}

Result<int> list_checkpoints(const CheckpointTarget& target, bool as_json) {
  MUSTER_ASSIGN(const auto directories, checkpoint::step_directories(target.directory));
  std::vector<Listed> all;
  for (const StepDirectory& directory : directories) {
    if (target.checkpoint && directory.path != *target.checkpoint) continue;
    MUSTER_ASSIGN(Listed listed, describe(directory));
    all.push_back(std::move(listed));
  }
  if (!target.checkpoint) {
    MUSTER_ASSIGN(const auto quarantined, quarantined_in(target.directory));
    all.insert(all.end(), quarantined.begin(), quarantined.end());
  }
  if (as_json) {
    json list = json::array();
    for (const Listed& listed : all) list.push_back(to_json(listed));
    print_json({{"directory", target.directory.string()}, {"checkpoints", std::move(list)}});
    return all.empty() ? contract::kMusterNotFound : contract::kMusterOk;
  }
  if (all.empty())
    return fail(ErrorCode::kNotFound, "there is no checkpoint in {}", target.directory.string());
  print_table(all);
  return contract::kMusterOk;
}

// ---- show ----------------------------------------------------------------------------------------------

void show_as_text(const fs::path& path, const Manifest& manifest) {
  fmt::print(
      "checkpoint  {}\nstep        {}\nattempt     {}\nranks       {}\ncreated     {}\nwritten by  {}\n",
      path.string(), manifest.step, manifest.generation, manifest.world_size, manifest.created,
      manifest.code);
  fmt::print("metric      {}\nsize        {} in {} files\n\ntensors\n", metric_text(manifest.metric),
             size_text(total_bytes(manifest)), manifest.files.size());
  for (const checkpoint::TensorInfo& tensor : manifest.tensors) {
    fmt::print("  {:<48} [{}]\n", tensor.name, fmt::join(tensor.shape, ", "));
  }
  fmt::print("\nstate\n{}\n", manifest.state.dump(2));
}

Result<int> show_checkpoint(const CheckpointTarget& target, bool as_json) {
  MUSTER_ASSIGN(const fs::path path, named_or_newest(target));
  MUSTER_ASSIGN(const checkpoint::ManifestCheck check, checkpoint::check_commit(path));
  if (!check.manifest || !check.problems.empty()) {
    return fail(ErrorCode::kCorrupt, "{}: {}", path.string(), joined(check.problems));
  }
  if (as_json) {
    // The manifest is the machine-readable description.
    print_json({{"checkpoint", path.string()}, {"manifest", json::parse(check.text)}});
  } else {
    show_as_text(path, *check.manifest);
  }
  return contract::kMusterOk;
}

// ---- verify --------------------------------------------------------------------------------------------

struct Verified {
  fs::path path;
  bool committed = false;
  std::vector<Problem> problems;
};

Result<std::vector<Verified>> verify_each(const CheckpointTarget& target) {
  std::vector<Verified> results;
  if (target.checkpoint) {
    MUSTER_ASSIGN(checkpoint::Verification verification, checkpoint::verify_checkpoint(*target.checkpoint));
    results.push_back({*target.checkpoint, true, std::move(verification.problems)});
    return results;
  }
  MUSTER_ASSIGN(const auto directories, checkpoint::step_directories(target.directory));
  for (const StepDirectory& directory : directories) {
    Verified verified{directory.path, directory.committed, {}};
    if (directory.committed) {
      MUSTER_ASSIGN(checkpoint::Verification verification, checkpoint::verify_checkpoint(directory.path));
      verified.problems = std::move(verification.problems);
    }
    results.push_back(std::move(verified));
  }
  if (results.empty())
    return fail(ErrorCode::kNotFound, "there is no checkpoint in {}", target.directory.string());
  return results;
}

void print_verified(const Verified& verified) {
  const std::string name = verified.path.filename().string();
  if (!verified.committed) {
    fmt::print("{}: not committed (no {}); resuming passes it over\n", name, checkpoint::kMarkerFile);
  } else if (verified.problems.empty()) {
    fmt::print("{}: ok\n", name);
  }
  for (const Problem& problem : verified.problems) fmt::print("{}: {}\n", name, to_full_text(problem));
}

json to_json(const Verified& verified) {
  json problems = json::array();
  for (const Problem& problem : verified.problems) problems.push_back(checkpoint::to_json(problem));
  const char* state = !verified.committed ? "not committed" : verified.problems.empty() ? "ok" : "damaged";
  return {{"checkpoint", verified.path.string()}, {"state", state}, {"problems", std::move(problems)}};
}

Result<int> verify_checkpoints(const CheckpointTarget& target, bool as_json) {
  MUSTER_ASSIGN(const auto results, verify_each(target));
  json list = json::array();
  bool damaged = false;
  for (const Verified& verified : results) {
    damaged = damaged || !verified.problems.empty();
    if (as_json) {
      list.push_back(to_json(verified));
    } else {
      print_verified(verified);
    }
  }
  if (as_json) print_json(list);
  return damaged ? contract::kMusterVerifyFailed : contract::kMusterOk;
}

// ---- hash ----------------------------------------------------------------------------------------------

Result<int> hash_checkpoint(const CheckpointTarget& target, bool as_json) {
  MUSTER_ASSIGN(const fs::path path, named_or_newest(target));
  MUSTER_ASSIGN(checkpoint::ManifestCheck check, checkpoint::check_commit(path));
  if (!check.manifest || !check.problems.empty()) {
    return fail(ErrorCode::kCorrupt, "{}: {}", path.string(), joined(check.problems));
  }
  const checkpoint::TensorReader reader(path, *std::move(check.manifest));
  MUSTER_ASSIGN(const std::string hash, checkpoint::canonical_hash(reader));
  if (as_json) {
    print_json({{"checkpoint", path.string()}, {"sha256", hash}});
  } else {
    fmt::print("{}  {}\n", hash, path.filename().string());
  }
  return contract::kMusterOk;
}

struct Action {
  std::string_view name;
  Result<int> (*run)(const CheckpointTarget&, bool as_json);
};
constexpr std::array kActions{Action{"list", list_checkpoints}, Action{"show", show_checkpoint},
                              Action{"verify", verify_checkpoints}, Action{"hash", hash_checkpoint}};

constexpr const char* kUsage =
    "usage: muster checkpoint list|show|verify|hash DIR [--json]\n"
    "       muster checkpoint now RUN [--timeout T] [--json]\n\n"
    "  list    the checkpoints, damaged and quarantined ones too\n"
    "  show    tensors and training state of one\n"
    "  verify  reads every byte and names what is missing, truncated or damaged\n"
    "  hash    SHA-256 over parameters and optimizer state, whatever the number of ranks that wrote them\n"
    "  now     asks a run that is going on to save, and waits for it; `muster checkpoint now --help`\n\n"
    "DIR: a checkpoint (…/step-000000000100), a directory of checkpoints, a run directory, a run id or a "
    "task\n"
    "name. show and hash take the newest committed checkpoint unless DIR is one; verify takes all.\n"
    "Exit code: 0, 66 if there is none, 71 if one is damaged.";

constexpr const char* kForms =
    "list, show, verify or hash, then a checkpoint, a directory of checkpoints, a run directory, a run id or "
    "a task's name";

}  // namespace

int checkpoint(const Arguments& arguments) {
  if (!arguments.empty() && arguments.front() == "now") {
    return checkpoint_now(Arguments(arguments.begin() + 1, arguments.end()));
  }
  po::options_description options("Options");
  options.add_options()("json", "print JSON");
  const ParsedLine line = parse_command_line({kUsage, options, "ACTION DIR", 2, kForms}, arguments);
  if (line.exit_code) return *line.exit_code;
  const auto& words = line.values["ACTION DIR"].as<std::vector<std::string>>();
  const auto action = std::find_if(kActions.begin(), kActions.end(),
                                   [&](const Action& a) { return a.name == words.front(); });
  if (action == kActions.end() || words.size() != 2) {
    fmt::print(
        stderr, "muster: {}\n\n{}\n",
        action == kActions.end() ? fmt::format("unknown action '{}'", words.front()) : "DIR is missing",
        kUsage);
    return contract::kMusterUsage;
  }
  const auto target = find_checkpoints(words[1]);
  if (!target) return report_error(target.error());
  const auto exit_code = action->run(*target, line.values.contains("json"));
  return exit_code ? *exit_code : report_error(exit_code.error());
}

}  // namespace muster::commands
