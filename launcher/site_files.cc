// Finding and reading the files of a site profile.
#include <array>
#include <cstdlib>
#include <filesystem>

#include "common/file_ops.h"
#include "launcher/site_profile.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSystemFile = "/etc/muster/site.yaml";
constexpr const char* kNamedFile = "MUSTER_SITE";

fs::path from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Empty: this user has no home. XDG_CONFIG_HOME counts only if it is absolute, as its standard demands.
fs::path user_file() {
  fs::path configuration = from_environment("XDG_CONFIG_HOME");
  if (!configuration.is_absolute()) {
    const fs::path home = from_environment("HOME");
    if (!home.is_absolute()) return {};
    configuration = home / ".config";
  }
  return configuration / "muster" / "site.yaml";
}

}  // namespace

Result<std::vector<SiteFile>> find_site_files() {
  const fs::path named = from_environment(kNamedFile);
  std::vector<SiteFile> files;
  for (const fs::path& path : std::array<fs::path, 2>{kSystemFile, user_file()}) {
    if (path.empty() || path == named) continue;
    auto text = read_text_file(path);
    if (text) {
      files.push_back({path.string(), *std::move(text)});
    } else if (text.error().code != ErrorCode::kNotFound) {
      return tl::unexpected<Error>(std::move(text).error());
    }
  }
  if (named.empty()) return files;
  auto text = read_text_file(named);
  if (!text) {
    return fail(text.error().code, "{} (which ${} names)", text.error().message, kNamedFile);
  }
  files.push_back({named.string(), *std::move(text)});
  return files;
}

Result<SiteProfile> load_site_profile() {
  MUSTER_ASSIGN(const std::vector<SiteFile> files, find_site_files());
  return parse_site_profile(files);
}

}  // namespace muster
