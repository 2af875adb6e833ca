// What a task's words mean at a site.
#include <algorithm>
#include <cctype>

#include "launcher/site_profile.h"
#include "launcher/site_profile_readers.h"

namespace muster {

using site_file::folded;

std::string site_file::folded(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

const PriorityClass& SiteProfile::priority(Priority priority) const {
  switch (priority) {
    case Priority::kLow:
      return low;
    case Priority::kHigh:
      return high;
    case Priority::kNormal:
      break;
  }
  return normal;
}

const GpuType* SiteProfile::find_gpu(std::string_view name) const {
  const std::string wanted = folded(name);
  for (const auto& [gpu_name, gpu] : gpus) {
    if (folded(gpu_name) == wanted) return &gpu;
  }
  for (const auto& [gpu_name, gpu] : gpus) {
    const auto is_wanted = [&](const std::string& alias) { return folded(alias) == wanted; };
    if (std::any_of(gpu.aliases.begin(), gpu.aliases.end(), is_wanted)) return &gpu;
  }
  return nullptr;
}

}  // namespace muster
