// A file that is only read, at given offsets, with pread(2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "common/status.h"

namespace muster::checkpoint {

class ReadOnlyFile {
 public:
  static Result<ReadOnlyFile> open(const std::filesystem::path& path);

  ReadOnlyFile(ReadOnlyFile&& other) noexcept;
  ReadOnlyFile& operator=(ReadOnlyFile&& other) noexcept;
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;
  ~ReadOnlyFile();

  Result<std::int64_t> size() const;

  // Hands [offset, offset + bytes) to the sink in blocks, in order, and returns the SHA-256 of them. kCorrupt
  // if the file ends before. That it cannot be read (EIO) is kIo: it says nothing about what is stored, as
  // network file systems fail for a while.
  using Sink = std::function<void(std::int64_t at /* from `offset` */, std::span<const std::byte> block)>;
  Result<std::string> read(std::int64_t offset, std::int64_t bytes, const Sink& sink) const;
  Result<std::string> sha256(std::int64_t offset, std::int64_t bytes) const;

 private:
  ReadOnlyFile(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::filesystem::path path_;
};

}  // namespace muster::checkpoint
