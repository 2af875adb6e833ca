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
    case ErrorCode::kDenied:
    case ErrorCode::kNoSpace:
    case ErrorCode::kInternal:
      break;
  }
  return 1;  // a crash, within its budget
}

// For a program that nobody starts again: what the operating system refused is no crash.
inline Error as_command_error(Error error) {
  if (error.code == ErrorCode::kIo || error.code == ErrorCode::kDenied || error.code == ErrorCode::kNoSpace)
    error.code = ErrorCode::kNotStored;
  return error;
}

// Whether an error is the communicator's, so that its fault_rank() tells whom to blame for it. Everything
// else (bad data, a loss that is not finite) is no peer's fault.
inline bool is_communication_fault(const Error& error) {
  return error.code == ErrorCode::kDeadlineExceeded || error.code == ErrorCode::kPeerLost ||
         error.code == ErrorCode::kMismatch || error.code == ErrorCode::kAborted;
}

}  // namespace muster
