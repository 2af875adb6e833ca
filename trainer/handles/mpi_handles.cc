#include "trainer/handles/mpi_handles.h"

#include <array>

#include "trainer/comm/backoff.h"

namespace muster {

Status check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return {};
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  return fail(ErrorCode::kIo, "{} failed: {} (code {})", call,
              std::string_view(text.data(), static_cast<std::size_t>(length)), code);
}

Status wait_mpi(MPI_Request& request, const Deadline& deadline, std::string_view what) {
  comm::Backoff backoff;
  for (;;) {
    int done = 0;
    MUSTER_TRY(check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what));
    if (done != 0) return {};
    if (deadline.expired())
      return fail(ErrorCode::kDeadlineExceeded, "{}: not all ranks took part within the deadline", what);
    backoff.pause(false);
  }
}

Result<MpiComm> MpiComm::duplicate_world(const Deadline& deadline) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MUSTER_TRY(check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request), "MPI_Comm_idup"));
  MUSTER_TRY(wait_mpi(request, deadline, "duplicating MPI_COMM_WORLD"));
  MpiComm result(comm);
  MUSTER_TRY(check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  return result;
}

MpiComm::~MpiComm() {
  int finalized = 1;
  if (comm_ == MPI_COMM_NULL || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  MPI_Comm_free(&comm_);
}

}  // namespace muster
