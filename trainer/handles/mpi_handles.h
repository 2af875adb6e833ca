// Owners of MPI's objects, and its error codes as Status. The only headers that show mpi.h are mpi_*.
#pragma once

// The C++ bindings were removed from MPI long ago, and warn.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <string_view>
#include <utility>

#include "common/clock.h"
#include "common/status.h"

namespace muster {

// kIo with MPI's own text unless code is MPI_SUCCESS.
Status check_mpi(int code, std::string_view call);

// Polls a request until it is done; kDeadlineExceeded if it is not in time. `what` for messages: "gathering
// …".
Status wait_mpi(MPI_Request& request, const Deadline& deadline, std::string_view what);

// A duplicate of MPI_COMM_WORLD: its messages never meet those of others.
class MpiComm {
 public:
  // Collective.
  static Result<MpiComm> duplicate_world(const Deadline& deadline);
  MpiComm(MpiComm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  MpiComm& operator=(MpiComm&&) = delete;
  // Frees it, which the other ranks do too: not after a fault, see abandon().
  ~MpiComm();

  MPI_Comm get() const { return comm_; }
  // The group has failed: leave the communicator to the end of the process.
  void abandon() { comm_ = MPI_COMM_NULL; }

 private:
  explicit MpiComm(MPI_Comm comm) : comm_(comm) {}
  MPI_Comm comm_;
};

}  // namespace muster
