#include "launcher/preflight.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/checkpoint/find_checkpoint.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

class Findings {
 public:
  explicit Findings(const Plan& plan) : plan_(plan) {}

  void missing(const std::string& key, const std::string& what) {
    something_missing_ = true;
    forbidden(key, what);
  }
  void forbidden(const std::string& key, const std::string& what) {
    const auto place = plan_.places.find(key);
    const std::string where = place == plan_.places.end() ? "" : place->second + ": ";
    lines_.push_back(fmt::format("{}{}: {}", where, key, what));
  }

  Status status() const {
    if (lines_.empty()) return {};
    return fail(something_missing_ ? ErrorCode::kNotFound : ErrorCode::kUnavailable, "{}",
                fmt::join(lines_, "\n"));
  }

 private:
  const Plan& plan_;
  bool something_missing_ = false;
  std::vector<std::string> lines_;
};

bool is_executable_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

// The task's own PATH is the one that counts.
std::string search_path(const Plan& plan) {
  for (const EnvironmentVariable& variable : plan.environment) {
    if (variable.name == "PATH") return variable.value;
  }
  const char* path = std::getenv("PATH");
  return path == nullptr ? "" : path;
}

bool is_on_path(const std::string& command, const std::string& path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    if (is_executable_file((folder.empty() ? "." : folder) + "/" + command)) return true;
    begin = end + 1;
  }
  return false;
}

void check_program(const Plan& plan, Findings& findings) {
  const std::string& program = plan.argv.front();
  std::error_code ignored;
  if (program.find('/') == std::string::npos) {
    if (!is_on_path(program, search_path(plan))) {
      findings.missing("entry_point", fmt::format("no command '{}' on PATH", program));
    }
  } else if (!fs::exists(program, ignored)) {
    findings.missing("entry_point", fmt::format("no file {}", program));
  } else if (!is_executable_file(program)) {
    findings.forbidden("entry_point", fmt::format("{} cannot be executed; `chmod +x` it", program));
  }
  const bool is_script = program == "python3" && plan.argv.size() > 1;
  if (!is_script) return;
  const std::string& script = plan.argv[1];
  if (!fs::exists(script, ignored)) {
    findings.missing("entry_point", fmt::format("no file {}", script));
  } else if (access(script.c_str(), R_OK) != 0) {
    findings.forbidden("entry_point", fmt::format("{} cannot be read", script));
  }
}

// Directories that are missing are made; what is there already must be one.
void check_checkpoint_path(const Plan& plan, Findings& findings) {
  std::error_code ignored;
  for (fs::path path = plan.checkpoint_root; !path.empty(); path = path.parent_path()) {
    const fs::file_status status = fs::status(path, ignored);
    if (fs::is_directory(status)) return;
    if (fs::exists(status)) {
      return findings.forbidden("checkpoint_path", fmt::format("{} is no directory", path.string()));
    }
    if (path == path.parent_path()) return;
  }
}

void check_init_from(const Plan& plan, Findings& findings) {
  const auto found = checkpoint::find_checkpoint(plan.init_from, checkpoint::Verify::kManifest);
  if (found) return;
  const Error& error = found.error();
  if (error.code == ErrorCode::kNotFound || error.code == ErrorCode::kCorrupt) {
    findings.missing("trainer.init_from", error.message);
  } else {
    findings.forbidden("trainer.init_from", error.message);
  }
}

}  // namespace

Status check_inputs(const Plan& plan, bool has_checkpoint) {
  Findings findings(plan);
  if (!plan.hosts.empty()) return {};
  check_program(plan, findings);
  std::error_code ignored;
  if (!plan.data_path.empty() && !fs::exists(plan.data_path, ignored)) {
    findings.missing("data_path", fmt::format("nothing at {}", plan.data_path));
  }
  check_checkpoint_path(plan, findings);
  if (!plan.init_from.empty() && !has_checkpoint) check_init_from(plan, findings);
  return findings.status();
}

}  // namespace muster
