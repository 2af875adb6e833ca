#include "common/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <fstream>
#include <vector>

#include "common/file_ops.h"

namespace muster {

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  [[maybe_unused]] const int ok = EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  assert(ok == 1);
}

void Sha256::update(const void* data, std::size_t bytes) { EVP_DigestUpdate(context_.get(), data, bytes); }

std::string Sha256::hex_digest() {
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
  std::string hex;
  hex.reserve(64);
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string sha256_hex(const void* data, std::size_t bytes) {
  Sha256 hash;
  hash.update(data, bytes);
  return hash.hex_digest();
}

Result<std::string> sha256_file(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(error_code_of_errno(errno), "cannot open {}: {}", path.string(), errno_text(errno));
  Sha256 hash;
  std::vector<char> block(1 << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    hash.update(block.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) return fail(ErrorCode::kIo, "cannot read {}", path.string());
  return hash.hex_digest();
}

}  // namespace muster
