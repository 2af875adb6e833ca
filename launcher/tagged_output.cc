#include "launcher/tagged_output.h"

#include <array>
#include <charconv>

namespace muster {

TaggedOutputSplitter::Tag TaggedOutputSplitter::parse_tag(std::string_view text) const {
  // Job 1 is the one that mpirun started; other jobs (MPI_Comm_spawn) have ranks of their own numbering.
  constexpr std::string_view kPrefix = "[1,";
  constexpr std::size_t kDigitsMax = 9;
  const Tag incomplete{Tag::Kind::kIncomplete, {}, 0};
  if (text.size() < kPrefix.size()) return kPrefix.starts_with(text) ? incomplete : Tag{};
  if (!text.starts_with(kPrefix)) return {};
  std::size_t at = kPrefix.size();
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  const std::string_view digits = text.substr(kPrefix.size(), at - kPrefix.size());
  if (digits.size() > kDigitsMax) return {};
  if (at == text.size()) return incomplete;
  int rank = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (digits.empty() || rank >= world_size_) return {};
  const std::string_view rest = text.substr(at);
  for (const auto& [name, is_stderr] : {std::pair<std::string_view, bool>{"]<stdout>:", false},
                                        std::pair<std::string_view, bool>{"]<stderr>:", true},
                                        std::pair<std::string_view, bool>{"]<stddiag>:", true}}) {
    if (rest.starts_with(name)) return {Tag::Kind::kComplete, {rank, is_stderr}, at + name.size()};
    if (name.starts_with(rest)) return incomplete;
  }
  return {};
}

void TaggedOutputSplitter::add_text(std::string_view text, const LineSink& sink) {
  std::string& line = unfinished_[current_];
  line.append(text);
  while (line.size() >= kLineBytesMax) {
    sink(current_.rank, current_.is_stderr, std::string_view(line).substr(0, kLineBytesMax));
    line.erase(0, kLineBytesMax);
  }
}

void TaggedOutputSplitter::end_line(const LineSink& sink) {
  std::string& line = unfinished_[current_];
  if (line.ends_with('\r')) line.pop_back();
  sink(current_.rank, current_.is_stderr, line);
  line.clear();
  current_ = untagged();
}

void TaggedOutputSplitter::feed(std::string_view bytes, const LineSink& sink) {
  const std::string joined = unread_.empty() ? std::string() : unread_ + std::string(bytes);
  std::string_view rest = unread_.empty() ? bytes : std::string_view(joined);
  unread_.clear();
  while (!rest.empty()) {
    const std::size_t special = rest.find_first_of("\n[");
    add_text(rest.substr(0, special), sink);
    if (special == std::string_view::npos) return;
    rest.remove_prefix(special);
    if (rest.front() == '\n') {
      end_line(sink);
      rest.remove_prefix(1);
      continue;
    }
    const Tag tag = parse_tag(rest);
    if (tag.kind == Tag::Kind::kIncomplete) {
      unread_ = rest;
      return;
    }
    if (tag.kind == Tag::Kind::kComplete) {
      current_ = tag.source;
      rest.remove_prefix(tag.length);
    } else {
      add_text(rest.substr(0, 1), sink);
      rest.remove_prefix(1);
    }
  }
}

void TaggedOutputSplitter::finish(const LineSink& sink) {
  add_text(unread_, sink);
  unread_.clear();
  for (auto& [source, line] : unfinished_) {
    if (!line.empty()) sink(source.rank, source.is_stderr, line);
  }
  unfinished_.clear();
  current_ = untagged();
}

}  // namespace muster
