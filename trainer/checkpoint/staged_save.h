// How every store saves: in stages, each of them local work on a thread of each rank, with one small exchange
// between two stages.
//
//   begin_save: the ranks agree on what is saved, and copy their slices
//   prepare     rank 0: room for the save
//   write       every rank: its slices
//   commit      rank 0: publishes what all ranks have written
//   abandon     rank 0: removes what a failed save leaves
//
// A stage begins only when every rank is done with the one before, so a slow rank is waited for and never
// overtaken. Threads: one thread owns a StagedSave; the stages run on the thread of its BackgroundWork.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/status.h"
#include "trainer/checkpoint/background_work.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/snapshot.h"

namespace muster::checkpoint {

// What a store does by itself on one rank. Local: none of it talks to another rank. Slow work is fine.
class SaveStages {
 public:
  virtual ~SaveStages() = default;
  // Rank 0. `bytes`: of all ranks' slices.
  virtual Status prepare(const SaveRequest& request, std::int64_t bytes) = 0;
  // The rank's answer (rank_answer() in assemble.h).
  virtual Result<nlohmann::json> write(const SaveRequest& request) = 0;
  // Rank 0, with all ranks' answers. The report's `seconds` are not its business.
  virtual Result<SaveReport> commit(const SaveRequest& request,
                                    const std::vector<nlohmann::json>& answers) = 0;
  // Rank 0, after any stage failed on any rank. Best effort.
  virtual void abandon(const SaveRequest& request) = 0;
};

class StagedSave {
 public:
  // Neither is owned.
  StagedSave(const Group& group, SaveStages& stages) : group_(group), stages_(stages) {}

  // As in CheckpointStore.
  Status begin(const SaveRequest& request);
  bool in_flight() const { return stage_ != Stage::kNone; }
  bool busy() const { return work_.busy(); }
  Result<std::optional<SaveReport>> advance();
  Result<SaveReport> finish(std::chrono::milliseconds timeout);

 private:
  enum class Stage { kNone, kPreparing, kWriting, kCommitting, kAbandoning };
  using Clock = std::chrono::steady_clock;

  void enter(Stage stage, BackgroundWork::Job rank_0, BackgroundWork::Job others);
  void write();
  void commit(std::vector<nlohmann::json> answers);
  void abandon(Error reason);
  SaveReport report_of(const nlohmann::json& committed) const;

  const Group& group_;
  SaveStages& stages_;
  Stage stage_ = Stage::kNone;
  Clock::time_point began_;
  Snapshot snapshot_;
  SaveRequest request_;  // its slices are the snapshot's
  Error failure_;        // why it is being abandoned
  BackgroundWork work_;  // last: its thread uses the members above
};

}  // namespace muster::checkpoint
