// SHA-256 (FIPS 180-4) through OpenSSL, incremental.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "common/status.h"

struct evp_md_ctx_st;

namespace muster {

class Sha256 {
 public:
  Sha256();
  void update(const void* data, std::size_t bytes);
  // Lower-case hex, 64 characters. The object must not be used afterwards.
  std::string hex_digest();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_hex(const void* data, std::size_t bytes);

// Hashes a file by streaming, whatever its size.
Result<std::string> sha256_file(const std::filesystem::path& path);

}  // namespace muster
