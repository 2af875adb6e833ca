#include "trainer/data/idx_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>

#include "common/file_ops.h"

namespace muster::data {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr int kDimensionsMax = 4;
constexpr std::int64_t kValuesMax = std::int64_t{1} << 40;

// A gzip or plain file, read forwards.
class Reader {
 public:
  static Result<Reader> open(const std::filesystem::path& path) {
    errno = 0;
    gzFile file = gzopen(path.c_str(), "rb");
    if (file == nullptr) {
      const int error = errno == 0 ? ENOMEM : errno;
      return fail(error_code_of_errno(error), "cannot open {}: {}", path.string(), errno_text(error));
    }
    gzbuffer(file, 1 << 18);
    return Reader(path, file);
  }

  // Reads up to `bytes`; fewer only at the end of the file.
  Result<std::size_t> read(std::uint8_t* out, std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes) {
      const auto wanted = static_cast<unsigned>(std::min<std::size_t>(bytes - done, 1U << 30));
      errno = 0;
      const int got = gzread(file_.get(), out + done, wanted);
      if (got < 0) return failure();
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    // A gzip stream that stops early gives what it has; only the error state tells.
    if (done < bytes) {
      int code = Z_OK;
      gzerror(file_.get(), &code);
      if (code != Z_OK && code != Z_STREAM_END) return failure();
    }
    return done;
  }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };

  Reader(std::filesystem::path path, gzFile file) : path_(std::move(path)), file_(file) {}

  tl::unexpected<Error> failure() {
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    if (code == Z_ERRNO) {
      const int error = errno;
      return fail(error_code_of_errno(error), "cannot read {}: {}", path_.string(), errno_text(error));
    }
    return fail(ErrorCode::kCorrupt, "{}: damaged gzip data: {}", path_.string(), text);
  }

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

Result<std::vector<std::int64_t>> read_shape(Reader& reader, const std::string& name) {
  std::array<std::uint8_t, 4> magic{};
  MUSTER_ASSIGN(const std::size_t magic_bytes, reader.read(magic.data(), magic.size()));
  if (magic_bytes < magic.size()) {
    return fail(ErrorCode::kCorrupt, "{}: truncated: {} bytes where the 4-byte IDX magic number should be",
                name, magic_bytes);
  }
  if (magic[0] != 0 || magic[1] != 0) {
    return fail(ErrorCode::kCorrupt,
                "{}: not an IDX file: it begins with {:02x}{:02x}{:02x}{:02x}; an IDX file of unsigned bytes "
                "begins with 000008 and the number of dimensions",
                name, magic[0], magic[1], magic[2], magic[3]);
  }
  if (magic[2] != kUnsignedByte) {
    return fail(ErrorCode::kCorrupt, "{}: IDX element type 0x{:02x}; only 0x08 (unsigned bytes) can be read",
                name, magic[2]);
  }
  if (magic[3] < 1 || magic[3] > kDimensionsMax) {
    return fail(ErrorCode::kCorrupt, "{}: {} dimensions; allowed: 1 to {}", name, magic[3], kDimensionsMax);
  }
  std::vector<std::int64_t> shape;
  std::int64_t values = 1;
  for (int axis = 0; axis < magic[3]; ++axis) {
    std::array<std::uint8_t, 4> size{};
    MUSTER_ASSIGN(const std::size_t size_bytes, reader.read(size.data(), size.size()));
    if (size_bytes < size.size()) {
      return fail(ErrorCode::kCorrupt, "{}: truncated in its header: the size of dimension {} is missing",
                  name, axis);
    }
    shape.push_back((std::int64_t{size[0]} << 24) | (size[1] << 16) | (size[2] << 8) | size[3]);
    if (shape.back() == 0) return fail(ErrorCode::kCorrupt, "{}: dimension {} is 0", name, axis);
    if (values > kValuesMax / shape.back()) {
      return fail(ErrorCode::kCorrupt, "{}: its dimensions multiply to more than {} values", name,
                  kValuesMax);
    }
    values *= shape.back();
  }
  return shape;
}

}  // namespace

Result<IdxArray> read_idx_file(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail(ErrorCode::kIo, "cannot read {}: it is a directory", name);
  }
  MUSTER_ASSIGN(Reader reader, Reader::open(path));
  IdxArray array;
  MUSTER_ASSIGN(array.shape, read_shape(reader, name));
  std::size_t expected = 1;
  for (const std::int64_t size : array.shape) expected *= static_cast<std::size_t>(size);

  // In pieces, so that a header that lies about the size cannot ask for more memory than there is data.
  constexpr std::size_t kPieceBytes = std::size_t{1} << 22;
  try {
    while (array.values.size() < expected) {
      const std::size_t before = array.values.size();
      const std::size_t piece = std::min(kPieceBytes, expected - before);
      array.values.resize(before + piece);
      MUSTER_ASSIGN(const std::size_t got, reader.read(array.values.data() + before, piece));
      if (got < piece) {
        return fail(ErrorCode::kCorrupt, "{}: truncated: {} values of {} are there", name, before + got,
                    expected);
      }
    }
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kUnavailable, "{}: out of memory for {} values", name, expected);
  }
  std::uint8_t extra = 0;
  MUSTER_ASSIGN(const std::size_t extra_bytes, reader.read(&extra, 1));
  if (extra_bytes != 0) {
    return fail(ErrorCode::kCorrupt, "{}: goes on after the {} values that its header announces", name,
                expected);
  }
  return array;
}

}  // namespace muster::data
