#include "launcher/environment.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/run_contract.h"

namespace muster {

namespace {

constexpr std::array<std::string_view, 11> kSecretWords{"TOKEN",      "SECRET",     "PASSWORD", "PASSWD",
                                                        "PASSPHRASE", "CREDENTIAL", "API_KEY",  "PRIVATE_KEY",
                                                        "ACCESS_KEY", "APIKEY",     "AUTH_KEY"};

constexpr std::array<std::string_view, 5> kReservedPrefixes{"MUSTER_", "OMPI_COMM_WORLD_", "PMIX_", "PMI_",
                                                            "SLURM_"};

constexpr std::array<std::string_view, 7> kReservedNames{
    contract::kRank,     contract::kWorldSize,  contract::kLocalRank, contract::kLocalWorldSize,
    contract::kNodeRank, contract::kMasterAddr, contract::kMasterPort};

// scheme://user:password@host
bool is_url_with_password(std::string_view value) {
  const auto scheme = value.find("://");
  if (scheme == std::string_view::npos) return false;
  const std::string_view authority = value.substr(scheme + 3, value.find('/', scheme + 3) - (scheme + 3));
  const auto at = authority.rfind('@');
  return at != std::string_view::npos && authority.substr(0, at).find(':') != std::string_view::npos;
}

}  // namespace

bool looks_secret(std::string_view name, std::string_view value) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto contains = [&](std::string_view word) { return upper.find(word) != std::string::npos; };
  return std::any_of(kSecretWords.begin(), kSecretWords.end(), contains) || is_url_with_password(value);
}

bool is_environment_name(std::string_view name) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const auto is_inner = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && is_letter(name.front()) && std::all_of(name.begin(), name.end(), is_inner);
}

bool is_reserved_environment_name(std::string_view name) {
  const auto is_prefix = [&](std::string_view prefix) { return name.starts_with(prefix); };
  return std::find(kReservedNames.begin(), kReservedNames.end(), name) != kReservedNames.end() ||
         std::any_of(kReservedPrefixes.begin(), kReservedPrefixes.end(), is_prefix);
}

}  // namespace muster
