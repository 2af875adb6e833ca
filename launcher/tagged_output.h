// Takes apart what `mpirun --tag-output` writes: [1,RANK]<stdout>:text. Pure.
// mpirun tags each piece it reads from a rank, not each line, so a tag may follow an unfinished line of
// another rank; and what has no tag is mpirun's own. Known limit of Open MPI 4.1: of a burst of very short
// lines from one rank (less than about 16 bytes each, more than 4 KiB at once) mpirun itself drops some.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace muster {

class TaggedOutputSplitter {
 public:
  // rank -1: the launcher itself.
  using LineSink = std::function<void(int rank, bool is_stderr, std::string_view line)>;

  // Longer lines are handed over in pieces of this size.
  static constexpr std::size_t kLineBytesMax = std::size_t{64} << 10;

  // untagged_is_stderr: which of mpirun's own streams this is.
  TaggedOutputSplitter(int world_size, bool untagged_is_stderr)
      : world_size_(world_size), untagged_is_stderr_(untagged_is_stderr) {}

  void feed(std::string_view bytes, const LineSink& sink);
  // At end of file: hands over what has no newline.
  void finish(const LineSink& sink);

 private:
  struct Source {
    int rank = -1;
    bool is_stderr = false;
    bool operator<(const Source& other) const {
      return std::tie(rank, is_stderr) < std::tie(other.rank, other.is_stderr);
    }
  };
  struct Tag {
    enum class Kind { kNone, kIncomplete, kComplete } kind = Kind::kNone;
    Source source;
    std::size_t length = 0;
  };
  Tag parse_tag(std::string_view text) const;
  void add_text(std::string_view text, const LineSink& sink);
  void end_line(const LineSink& sink);
  Source untagged() const { return {-1, untagged_is_stderr_}; }

  int world_size_;
  bool untagged_is_stderr_;
  std::string unread_;  // may be the beginning of a tag
  Source current_{-1, untagged_is_stderr_};
  std::map<Source, std::string> unfinished_;
};

}  // namespace muster
