#include "trainer/handles/mpi_session.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "common/run_contract.h"
#include "trainer/handles/mpi_handles.h"
#include "trainer/handles/watchdog.h"

namespace muster {
namespace {

Status check_variable(const char* name, int mpi_value, std::string_view mpi_word) {
  const char* text = std::getenv(name);
  if (text == nullptr) return {};
  const std::string_view digits(text);
  int value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc() || end != digits.data() + digits.size())
    return fail(ErrorCode::kInvalidArgument, "the environment says {}={}, which is not a number", name, text);
  if (value == mpi_value) return {};
  return fail(
      ErrorCode::kMismatch,
      "the environment says {}={}, but MPI says {} {}: this process was not started by mpirun (or srun), or "
      "its MPI library does not understand that launcher's PMI",
      name, value, mpi_word, mpi_value);
}

}  // namespace

Result<std::unique_ptr<MpiSession>> MpiSession::start(const Options& options) {
  int initialized = 0;
  MUSTER_TRY(check_mpi(MPI_Initialized(&initialized), "MPI_Initialized"));
  if (initialized != 0) return fail(ErrorCode::kAlreadyExists, "MPI was already started in this process");
  int provided = MPI_THREAD_SINGLE;
  {
    const Watchdog watchdog(
        options.init_timeout,
        fmt::format("MPI_Init did not return within {} ms: not all ranks have come up, or they "
                    "cannot reach each other",
                    options.init_timeout.count()),
        contract::kExitRetry);
    MUSTER_TRY(
        check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread"));
  }
  MUSTER_TRY(
      check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  MUSTER_TRY(check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  if (provided < MPI_THREAD_SERIALIZED)
    return fail(ErrorCode::kUnavailable,
                "this MPI library allows only its first thread to call it (level {})", provided);
  std::unique_ptr<MpiSession> session(new MpiSession(options));
  MUSTER_TRY(check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &session->rank_), "MPI_Comm_rank"));
  MUSTER_TRY(check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &session->size_), "MPI_Comm_size"));
  MUSTER_TRY(check_variable(contract::kWorldSize, session->size_, "the number of ranks is"));
  MUSTER_TRY(check_variable(contract::kRank, session->rank_, "this is rank"));
  return session;
}

Status MpiSession::finish() {
  const Watchdog watchdog(options_.finish_timeout,
                          fmt::format("MPI_Finalize did not return on rank {} within {} ms", rank_,
                                      options_.finish_timeout.count()),
                          contract::kExitRetry);
  return check_mpi(MPI_Finalize(), "MPI_Finalize");
}

}  // namespace muster
