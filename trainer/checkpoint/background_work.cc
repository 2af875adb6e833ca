#include "trainer/checkpoint/background_work.h"

#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

namespace muster::checkpoint {
namespace {

using nlohmann::json;

Result<json> run_guarded(const BackgroundWork::Job& job) {
  sigset_t all{};
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  try {
    return job();
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, "{}", error.what());
  }
}

}  // namespace

void BackgroundWork::start(Job job) {
  try {
    outcome_ = std::async(std::launch::async, [job = std::move(job)] { return run_guarded(job); });
  } catch (const std::system_error& error) {
    std::promise<Result<json>> failed;
    failed.set_value(fail(ErrorCode::kIo, "cannot start a thread: {}", error.what()));
    outcome_ = failed.get_future();
  }
}

bool BackgroundWork::busy() const {
  return outcome_.valid() && outcome_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void BackgroundWork::wait(std::chrono::milliseconds longest) const {
  if (outcome_.valid()) outcome_.wait_for(longest);
}

Result<json> BackgroundWork::take() {
  if (!outcome_.valid()) return json();
  return outcome_.get();
}

}  // namespace muster::checkpoint
