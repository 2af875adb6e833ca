// Status and Result<T>: how expected failures (bad input, disk full, a peer that is gone) cross a seam.
// Programmer errors are asserts. Exceptions do not cross seams. See docs/errors.md.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace muster {

enum class ErrorCode {
  kInvalidArgument,   // the caller's input is wrong; doing it again cannot help
  kNotFound,          // a file, run or checkpoint that is not there
  kAlreadyExists,     // something is there that must not be
  kUnavailable,       // requested, but this build or machine cannot do it
  kDeadlineExceeded,  // a wait ran out
  kPeerLost,          // a rank or node gave no sign of life
  kMismatch,          // ranks (or versions) disagree
  kCorrupt,           // stored bytes are not what was written
  kIo,                // the operating system refused a read or write
  kDenied,            // no permission, or a read-only file system
  kNoSpace,           // disk or quota full
  kNotStored,         // work, done or to come, that no checkpoint can be made of
  kAborted,           // somebody else gave up, and so do we
  kInternal           // a broken invariant
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// return fail(ErrorCode::kIo, "cannot open {}: {}", path, reason);
template <class... Args>
tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace muster

// Propagates a failed Status or Result from a function that itself returns one.
#define MUSTER_TRY(expression)                                                \
  do {                                                                        \
    if (auto muster_try_ = (expression); !muster_try_) {                      \
      return tl::unexpected<::muster::Error>(std::move(muster_try_).error()); \
    }                                                                         \
  } while (false)

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)

// MUSTER_ASSIGN(auto bytes, read_file(path)): declares and assigns, or propagates the error.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define MUSTER_ASSIGN(declaration, expression)                                                          \
  auto MUSTER_CONCAT(muster_result_, __LINE__) = (expression);                                          \
  if (!MUSTER_CONCAT(muster_result_, __LINE__)) {                                                       \
    return tl::unexpected<::muster::Error>(std::move(MUSTER_CONCAT(muster_result_, __LINE__)).error()); \
  }                                                                                                     \
  declaration = *std::move(MUSTER_CONCAT(muster_result_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)
