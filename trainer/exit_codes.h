// Which exit code tells the supervisor what about an error. Pure.
#pragma once

#include "common/run_contract.h"
#include "common/status.h"

namespace muster {

inline int exit_code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kUnavailable:
    case ErrorCode::kMismatch:
    case ErrorCode::kCorrupt:
      return contract::kExitDoNotRetry;
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kPeerLost:
    case ErrorCode::kAborted:
      return contract::kExitRetry;
    case ErrorCode::kNotStored:
      return contract::kExitNotStored;
    case ErrorCode::kIo:
    case ErrorCode::kNoSpace:
    case ErrorCode::kInternal:
      break;
  }
  return 1;  // a crash, within its budget
}

}  // namespace muster
