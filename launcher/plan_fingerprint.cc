#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/sha256.h"
#include "launcher/plan_parts.h"

namespace muster::planning {

namespace {

// Enough to see that a secret changed, and not the secret.
std::string secret_digest(const std::string& value) {
  constexpr std::size_t kShownDigits = 12;
  return "sha256:" + sha256_hex(value.data(), value.size()).substr(0, kShownDigits);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> result_fingerprint(const TaskSpec& spec,
                                                                    const PlanOptions& options) {
  std::vector<std::pair<std::string, std::string>> fingerprint;
  fingerprint.emplace_back("entry_point", spec.entry_point);
  fingerprint.emplace_back("args", nlohmann::json(spec.args).dump());
  fingerprint.emplace_back("data_path", spec.data_path);
  if (spec.trainer) {
    for (const TrainerSetting& setting : trainer_settings(*spec.trainer)) {
      if (setting.decides_result) fingerprint.emplace_back("trainer." + setting.name, setting.value);
    }
  }
  if (!options.init_from_sha256.empty()) {
    fingerprint.emplace_back(kInitFromIdentity, options.init_from_sha256);
  }
  for (const EnvironmentVariable& variable : spec.env) {
    fingerprint.emplace_back("env." + variable.name,
                             variable.secret ? secret_digest(variable.value) : variable.value);
  }
  std::sort(fingerprint.begin(), fingerprint.end());
  return fingerprint;
}

}  // namespace muster::planning
