// A site profile for people and programs: every setting, its value, and where it comes from. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "launcher/site_profile.h"

namespace muster {

// Secrets are shown as ***. `files`: the names of those that were read, in their order.
std::string site_profile_to_text(const SiteProfile& profile, const std::vector<std::string>& files);

// {"files": [NAME…], "settings": {KEY: {"value", "file", "line", "column"}}}. A setting that no file gives
// has its default, or null, and no place. Durations are in milliseconds.
nlohmann::json site_profile_to_json(const SiteProfile& profile, const std::vector<std::string>& files);

}  // namespace muster
