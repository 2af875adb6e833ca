// What a task's words mean at a site.
#include <algorithm>

#include "launcher/site_profile.h"

namespace muster {

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
  for (const auto& [known, type] : gpus) {
    const bool has_alias = std::find(type.aliases.begin(), type.aliases.end(), name) != type.aliases.end();
    if (known == name || has_alias) return &type;
  }
  return nullptr;
}

}  // namespace muster
