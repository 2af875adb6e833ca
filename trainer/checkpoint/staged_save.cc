#include "trainer/checkpoint/staged_save.h"

#include <fmt/ranges.h>

#include <cassert>
#include <string>
#include <utility>

#include "common/clock.h"
#include "trainer/checkpoint/assemble.h"
#include "trainer/checkpoint/collective.h"

namespace muster::checkpoint {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// How long a rank waits for its own thread before it tells the others that it still does: no collective of
// finish() takes much longer than this, however slow the disk is.
constexpr milliseconds kPatience{500};

}  // namespace

Status StagedSave::begin(const SaveRequest& request) {
  assert(!in_flight());
  const auto began = Clock::now();
  MUSTER_ASSIGN(const std::int64_t bytes,
                agree_on_save(group_, request, [&] { snapshot_.take(request.slices); }));
  began_ = began;
  request_ = request;
  request_.slices = snapshot_.slices();
  enter(
      Stage::kPreparing,
      [this, bytes]() -> Result<json> {
        MUSTER_TRY(stages_.prepare(request_, bytes));
        return json();
      },
      nullptr);
  return {};
}

void StagedSave::enter(Stage stage, BackgroundWork::Job rank_0, BackgroundWork::Job others) {
  stage_ = stage;
  BackgroundWork::Job& mine = group_.rank == 0 ? rank_0 : others;
  if (mine) work_.start(std::move(mine));
}

void StagedSave::write() {
  const auto job = [this] { return stages_.write(request_); };
  enter(Stage::kWriting, job, job);
}

void StagedSave::commit(std::vector<json> answers) {
  enter(
      Stage::kCommitting,
      [this, answers = std::move(answers)]() -> Result<json> {
        MUSTER_ASSIGN(const SaveReport report, stages_.commit(request_, answers));
        return json{{"path", report.path}, {"bytes", report.bytes}, {"warnings", report.warnings}};
      },
      nullptr);
}

void StagedSave::abandon(Error reason) {
  failure_ = std::move(reason);
  enter(
      Stage::kAbandoning,
      [this]() -> Result<json> {
        stages_.abandon(request_);
        return json();
      },
      nullptr);
}

SaveReport StagedSave::report_of(const json& committed) const {
  SaveReport report;
  report.path = committed.at("path").get<std::string>();
  report.bytes = committed.at("bytes").get<std::int64_t>();
  report.warnings = committed.at("warnings").get<std::vector<std::string>>();
  report.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  return report;
}

Result<std::optional<SaveReport>> StagedSave::advance() {
  assert(in_flight() && !busy());
  if (stage_ == Stage::kAbandoning) {
    [[maybe_unused]] const auto best_effort = work_.take();
    stage_ = Stage::kNone;
    return tl::unexpected<Error>(std::move(failure_));
  }
  auto by_rank = agree(group_, work_.take());
  if (!by_rank) {
    abandon(std::move(by_rank).error());
    return std::nullopt;
  }
  switch (stage_) {
    case Stage::kPreparing:
      write();
      return std::nullopt;
    case Stage::kWriting:
      commit(*std::move(by_rank));
      return std::nullopt;
    default:
      stage_ = Stage::kNone;
      return report_of(by_rank->front());
  }
}

Result<SaveReport> StagedSave::finish(milliseconds timeout) {
  assert(in_flight());
  const Deadline deadline = Deadline::after(timeout);
  for (;;) {
    work_.wait(std::min(kPatience, deadline.remaining()));
    MUSTER_ASSIGN(const auto ranks,
                  agree(group_, json{{"busy", work_.busy()}, {"late", deadline.expired()}}));
    std::vector<std::size_t> busy;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].at("busy").get<bool>()) busy.push_back(rank);
    }
    if (busy.empty()) {
      MUSTER_ASSIGN(std::optional<SaveReport> report, advance());
      if (report) return *std::move(report);
    } else if (ranks.front().at("late").get<bool>()) {
      return fail(ErrorCode::kDeadlineExceeded,
                  "the checkpoint of step {} is not stored after waiting {} s for it; rank {} still at work",
                  request_.step, static_cast<double>(timeout.count()) / 1000, fmt::join(busy, ", "));
    }
  }
}

}  // namespace muster::checkpoint
