#include "launcher/hostfile.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "common/file_ops.h"
#include "launcher/diagnostics.h"

namespace muster {

namespace {

constexpr int kSlotsMax = 65'536;
constexpr std::string_view kSettings = "slots=N, max_slots=N";

// Words of one line without its comment. "slots = 2" is one word, as in Open MPI.
std::vector<std::string> split_settings(std::string_view line, std::vector<int>& columns) {
  std::vector<std::string> words;
  bool joins_next = false;
  for (std::size_t i = 0; i < line.size();) {
    if (std::isspace(static_cast<unsigned char>(line[i])) != 0) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < line.size() && std::isspace(static_cast<unsigned char>(line[i])) == 0) ++i;
    const std::string_view word = line.substr(begin, i - begin);
    if (!words.empty() && (joins_next || word.front() == '=')) {
      words.back() += word;
    } else {
      words.emplace_back(word);
      columns.push_back(static_cast<int>(begin) + 1);
    }
    joins_next = word.back() == '=';
  }
  return words;
}

bool is_host_name(std::string_view name) {
  const auto is_allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), is_allowed);
}

class HostfileReader {
 public:
  explicit HostfileReader(const std::string& shown_file) : diagnostics_(shown_file) {}

  void read_line(int line_number, std::string_view line);
  Result<std::vector<Host>> finish();

 private:
  struct Entry {
    Host host;
    bool has_slots = false;
  };
  struct Settings {
    std::optional<int> slots;
    std::optional<int> max_slots;
  };

  std::optional<Settings> read_settings(int line_number, const std::vector<std::string>& words,
                                        const std::vector<int>& columns);
  void add(SourcePosition position, const std::string& name, const Settings& settings);

  Diagnostics diagnostics_;
  std::vector<Entry> entries_;
};

std::optional<HostfileReader::Settings> HostfileReader::read_settings(int line_number,
                                                                      const std::vector<std::string>& words,
                                                                      const std::vector<int>& columns) {
  Settings settings;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const SourcePosition position{line_number, columns[i]};
    const auto equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    const bool is_slots = key == "slots";
    if (equals == std::string::npos || (!is_slots && key != "max_slots" && key != "max-slots")) {
      diagnostics_.error(position, fmt::format("found '{}'; allowed: {}", words[i], kSettings));
      return std::nullopt;
    }
    int count = 0;
    const char* begin = words[i].data() + equals + 1;
    const char* end = words[i].data() + words[i].size();
    const auto [parsed_end, error] = std::from_chars(begin, end, count);
    if (error != std::errc{} || parsed_end != end || count < 1 || count > kSlotsMax) {
      diagnostics_.error(position, fmt::format("found '{}'; allowed: {} with a whole number from 1 to {}",
                                               words[i], kSettings, kSlotsMax));
      return std::nullopt;
    }
    (is_slots ? settings.slots : settings.max_slots) = count;
  }
  if (settings.slots && settings.max_slots && *settings.slots > *settings.max_slots) {
    diagnostics_.error({line_number, columns[0]},
                       fmt::format("found slots={} with max_slots={}; allowed: slots up to max_slots",
                                   *settings.slots, *settings.max_slots));
    return std::nullopt;
  }
  return settings;
}

void HostfileReader::add(SourcePosition position, const std::string& name, const Settings& settings) {
  const auto known =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.host.name == name; });
  if (known == entries_.end()) {
    entries_.push_back({{name, settings.slots.value_or(1)}, settings.slots.has_value()});
  } else if (!settings.slots) {
    ++known->host.slots;
  } else if (known->has_slots) {
    diagnostics_.error(position,
                       fmt::format("found a second slots= for host '{}'; allowed: one slots= for each "
                                   "host, or the name once for each slot",
                                   name));
  } else {
    known->host.slots += *settings.slots;
    known->has_slots = true;
  }
}

void HostfileReader::read_line(int line_number, std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<int> columns;
  const std::vector<std::string> words = split_settings(line, columns);
  if (words.empty()) return;
  const SourcePosition position{line_number, columns.front()};
  if (!is_host_name(words.front())) {
    diagnostics_.error(position, fmt::format("found '{}'; allowed: a host's name or IPv4 address, then {}",
                                             words.front(), kSettings));
    return;
  }
  const auto settings = read_settings(line_number, words, columns);
  if (settings) add(position, words.front(), *settings);
}

Result<std::vector<Host>> HostfileReader::finish() {
  if (diagnostics_.empty() && entries_.empty()) {
    diagnostics_.error({}, "found no host; allowed: at least one line with a host's name");
  }
  if (!diagnostics_.empty())
    return tl::unexpected<Error>(Error{ErrorCode::kInvalidArgument, diagnostics_.text()});
  std::vector<Host> hosts;
  for (const Entry& entry : entries_) hosts.push_back(entry.host);
  return hosts;
}

}  // namespace

Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& shown_file) {
  HostfileReader reader(shown_file);
  int line_number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    reader.read_line(++line_number, line);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return reader.finish();
}

Result<std::vector<Host>> load_hostfile(const std::filesystem::path& path) {
  MUSTER_ASSIGN(const std::string text, read_text_file(path));
  return parse_hostfile(text, path.string());
}

Result<std::vector<Host>> place_workers(const std::vector<Host>& hosts, int workers, int ranks_per_worker) {
  std::vector<Host> placed;
  int open = workers;
  int capacity = 0;
  for (const Host& host : hosts) {
    const int fit = host.slots / ranks_per_worker;
    capacity += fit;
    const int taken = std::min(fit, open);
    if (taken > 0) placed.push_back({host.name, taken * ranks_per_worker});
    open -= taken;
  }
  if (open == 0) return placed;
  return fail(
      ErrorCode::kUnavailable,
      "the hosts hold {} workers of {} ranks, and the task asks for {}; raise slots= in the host file, add "
      "hosts, or lower num_workers",
      capacity, ranks_per_worker, workers);
}

}  // namespace muster
