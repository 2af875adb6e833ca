#include "launcher/site_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "launcher/site_profile_readers.h"
#include "launcher/units.h"
#include "launcher/yaml_document.h"

namespace muster {

namespace {

using std::chrono::milliseconds;

struct FileReading {
  explicit FileReading(const SiteFile& file) : name(file.name), diagnostics(file.name) {}
  FileReading(const FileReading&) = delete;
  FileReading& operator=(const FileReading&) = delete;

  std::string name;
  Diagnostics diagnostics;
  ReadContext context{diagnostics};
};

// A place in one of the files; later files are greater.
struct Place {
  std::size_t file = 0;
  SourcePosition position;
  bool operator<(const Place& other) const {
    return file != other.file ? file < other.file : position < other.position;
  }
};

class ProfileReader {
 public:
  void read(const SiteFile& file);
  void apply_rules();
  Result<SiteProfile> take();

 private:
  void check_gpu_names();
  void check_times();
  bool is_good(const std::string& key) const {
    return std::all_of(files_.begin(), files_.end(),
                       [&](const FileReading& file) { return file.context.is_good(key); });
  }
  void error(const Place& place, std::string message) {
    files_[place.file].diagnostics.error(place.position, std::move(message));
  }
  std::string shown(const Place& place) const {
    return fmt::format("{}:{}:{}", files_[place.file].name, place.position.line, place.position.column);
  }

  SiteProfile profile_;
  std::deque<FileReading> files_;
  std::map<std::string, Place> places_;                     // by key
  std::map<std::string, std::vector<Place>> alias_places_;  // by GPU
};

void ProfileReader::read(const SiteFile& file) {
  const std::size_t index = files_.size();
  FileReading& reading = files_.emplace_back(file);
  const YamlNode root = parse_yaml(file.text, reading.diagnostics);
  if (root.kind == YamlNode::Kind::kNull || root.kind == YamlNode::Kind::kInvalid) return;
  if (root.kind != YamlNode::Kind::kMap) {
    reading.diagnostics.error(root.position,
                              fmt::format("found {}; allowed: keys and values", describe(root)));
    return;
  }
  GroupReader reader(root, "", reading.context);
  site_file::AliasPositions aliases;
  site_file::read_file(reader, profile_, aliases);
  reading.context.finish();
  for (const auto& [key, position] : reading.context.positions()) {
    places_[key] = {index, position};
    profile_.origins[key] = {file.name, position};
  }
  for (const auto& [gpu, positions] : aliases) {
    std::vector<Place>& places = alias_places_[gpu];
    places.clear();
    for (const SourcePosition& position : positions) places.push_back({index, position});
  }
}

// A name that stands for two GPUs would give a task whichever comes first.
void ProfileReader::check_gpu_names() {
  struct Name {
    Place place;
    std::string key;
    std::string name;
  };
  const auto by_place = [](const Name& a, const Name& b) { return a.place < b.place; };
  std::vector<Name> names;
  std::vector<Name> aliases;
  for (const auto& [name, gpu] : profile_.gpus) {
    names.push_back({places_.at("gpus." + name), "gpus." + name, name});
    for (std::size_t i = 0; i < gpu.aliases.size(); ++i) {
      aliases.push_back({alias_places_.at(name)[i], fmt::format("gpus.{}.aliases", name), gpu.aliases[i]});
    }
  }
  std::sort(names.begin(), names.end(), by_place);
  std::sort(aliases.begin(), aliases.end(), by_place);
  names.insert(names.end(), aliases.begin(), aliases.end());
  std::map<std::string, const Name*> known;
  for (const Name& name : names) {
    const auto [first, is_new] = known.emplace(site_file::folded(name.name), &name);
    if (is_new) continue;
    error(name.place,
          fmt::format("{}: found '{}', which {} has given at {}; allowed: each name once, in upper "
                      "or lower case",
                      name.key, name.name, first->second->key, shown(first->second->place)));
  }
}

void ProfileReader::check_times() {
  constexpr const char* kDefault = "limits.default_time";
  constexpr const char* kMax = "limits.max_time";
  SiteLimits& limits = profile_.limits;
  if (!is_good(kDefault) || !is_good(kMax)) return;
  if (!limits.max_time || limits.default_time <= *limits.max_time) return;
  if (!places_.contains(kDefault)) {
    limits.default_time = *limits.max_time;
    return;
  }
  error(std::max(places_.at(kDefault), places_.at(kMax)),
        fmt::format("{}: found {}; allowed: at most {}, which is {}", kDefault,
                    format_duration(limits.default_time), kMax, format_duration(*limits.max_time)));
}

void ProfileReader::apply_rules() {
  check_gpu_names();
  check_times();
}

Result<SiteProfile> ProfileReader::take() {
  std::string errors;
  for (const FileReading& file : files_) {
    if (file.diagnostics.empty()) continue;
    if (!errors.empty()) errors += '\n';
    errors += file.diagnostics.text();
  }
  if (!errors.empty()) return tl::unexpected<Error>(Error{ErrorCode::kInvalidArgument, errors});
  return std::move(profile_);
}

}  // namespace

Result<SiteProfile> parse_site_profile(const std::vector<SiteFile>& files) {
  ProfileReader reader;
  for (const SiteFile& file : files) reader.read(file);
  reader.apply_rules();
  return reader.take();
}

}  // namespace muster
