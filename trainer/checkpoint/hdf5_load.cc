#include "trainer/checkpoint/hdf5_load.h"

#include <fmt/ranges.h>

#include <optional>
#include <utility>

#include "common/checkpoint/tensor_reader.h"
#include "common/checkpoint/verify.h"
#include "trainer/checkpoint/collective.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Hdf5Checkpoint final : public LoadedCheckpoint {
 public:
  Hdf5Checkpoint(fs::path path, Manifest manifest) : reader_(std::move(path), std::move(manifest)) {}

  std::string path() const override { return reader_.directory().string(); }
  const json& state() const override { return reader_.manifest().state; }

  std::vector<std::string> tensor_names() const override {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : reader_.manifest().tensors) names.push_back(tensor.name);
    return names;
  }

  Result<std::vector<std::int64_t>> shape(std::string_view name) const override {
    const TensorInfo* tensor = find_tensor(reader_.manifest(), name);
    if (tensor == nullptr) return fail(ErrorCode::kNotFound, "{} has no tensor '{}'", path(), name);
    return tensor->shape;
  }

  Status read_rows(std::string_view name, std::int64_t row_begin, std::int64_t row_end, float* out) override {
    return reader_.read_rows(name, row_begin, row_end, out);
  }

 private:
  TensorReader reader_;
};

std::string reason_of(const std::vector<Problem>& problems) {
  std::vector<std::string> texts;
  for (const Problem& problem : problems) texts.push_back(to_text(problem));
  return fmt::format("{}", fmt::join(texts, "\n"));
}

json to_json(const Quarantined& q) { return {{"path", q.path}, {"reason", q.reason}}; }

Quarantined quarantined_from(const json& object) {
  return {object.at("path").get<std::string>(), object.at("reason").get<std::string>()};
}

class Loader {
 public:
  Loader(CheckpointDirectory& directory, const Group& group) : directory_(directory), group_(group) {}

  Result<LoadOutcome> run(std::int32_t generation) {
    generation_ = generation;
    MUSTER_TRY(agree_after_rank_0(group_, [&] { return claim(generation); }));
    for (;;) {
      MUSTER_ASSIGN(const json proposal, agree_after_rank_0(group_, [&] { return propose(); }));
      if (proposal.at("name").is_null()) return finish(nullptr);
      const fs::path path = directory_.path() / proposal.at("name").get<std::string>();
      MUSTER_ASSIGN(Manifest manifest, parse_manifest(proposal.at("manifest").get<std::string>()));
      MUSTER_ASSIGN(const auto problems, verify_together(path, manifest));
      if (problems.empty()) return finish(std::make_unique<Hdf5Checkpoint>(path, std::move(manifest)));
      MUSTER_TRY(agree_after_rank_0(group_, [&] { return reject(path, manifest, problems); }));
    }
  }

 private:
  // Before any step: where nothing can be stored, nothing should be trained.
  Result<json> claim(std::int32_t generation) {
    MUSTER_TRY(can_be_stored(directory_.claim(generation)));
    return json();
  }

  Status can_be_stored(const Status& written) const {
    if (written) return {};
    const Error& error = written.error();
    if (error.code != ErrorCode::kDenied && error.code != ErrorCode::kNoSpace) return written;
    return fail(ErrorCode::kNotStored, "no checkpoint can be stored in {}: {}", directory_.path().string(),
                error.message);
  }

  // Rank 0: the newest checkpoint whose marker and manifest are sound; those that are not go into quarantine.
  Result<json> propose() {
    MUSTER_ASSIGN(auto directories, step_directories(directory_.path()));
    for (; !directories.empty(); directories.pop_back()) {
      const StepDirectory& candidate = directories.back();
      if (!candidate.committed) continue;
      MUSTER_ASSIGN(const ManifestCheck check, check_commit(candidate.path));
      if (check.manifest && check.problems.empty()) {
        return json{{"name", candidate.path.filename().string()}, {"manifest", check.text}};
      }
      MUSTER_TRY(put_away(candidate.path, reason_of(check.problems)));
    }
    return json{{"name", nullptr}};
  }

  // Each rank reads its share of the files; all get all problems, with the rank that saw them.
  Result<std::vector<std::pair<int, Problem>>> verify_together(const fs::path& path,
                                                               const Manifest& manifest) {
    MUSTER_ASSIGN(const auto by_rank, agree_after(group_, [&]() -> Result<json> {
                    json mine = json::array();
                    for (std::size_t i = 0; i < manifest.files.size(); ++i) {
                      if (static_cast<int>(i % static_cast<std::size_t>(group_.size)) != group_.rank)
                        continue;
                      MUSTER_ASSIGN(const auto problem, verify_file(path, manifest.files[i]));
                      if (problem) mine.push_back(to_json(*problem));
                    }
                    return mine;
                  }));
    std::vector<std::pair<int, Problem>> problems;
    for (int rank = 0; rank < group_.size; ++rank) {
      for (const json& object : by_rank[static_cast<std::size_t>(rank)]) {
        MUSTER_ASSIGN(Problem problem, problem_from_json(object));
        problems.emplace_back(rank, std::move(problem));
      }
    }
    return problems;
  }

  // Rank 0. A file that only another rank finds bad is not damaged: that rank does not see this file system.
  Result<json> reject(const fs::path& path, const Manifest& manifest,
                      const std::vector<std::pair<int, Problem>>& problems) {
    std::vector<Problem> confirmed;
    for (const auto& [rank, problem] : problems) {
      for (const StoredFile& file : manifest.files) {
        if (file.name != problem.file) continue;
        MUSTER_ASSIGN(const auto again, verify_file(path, file));
        if (!again) {
          return fail(
              ErrorCode::kUnavailable,
              "rank {} says that {} {}, but rank 0 reads it whole: the checkpoint directory must lie on a "
              "file system that all ranks share",
              rank, (path / file.name).string(), problem.what);
        }
        confirmed.push_back(*again);
      }
    }
    MUSTER_TRY(put_away(path, reason_of(confirmed)));
    return json();
  }

  Status put_away(const fs::path& path, const std::string& reason) {
    auto quarantined = directory_.quarantine(path, reason);
    if (!quarantined) return can_be_stored(tl::unexpected<Error>(quarantined.error()));
    quarantined_.push_back(*std::move(quarantined));
    return {};
  }

  // Tells all ranks what rank 0 put into quarantine.
  Result<LoadOutcome> finish(std::unique_ptr<LoadedCheckpoint> checkpoint) {
    MUSTER_ASSIGN(const json told, agree_after_rank_0(group_, [&]() -> Result<json> {
                    // Best effort; the next save tries again and reports.
                    directory_.remove_debris(generation_);
                    json now = json::array();
                    for (const Quarantined& q : quarantined_) now.push_back(to_json(q));
                    std::optional<Quarantined> lost;
                    if (!checkpoint) {
                      MUSTER_ASSIGN(lost, directory_.newest_in_quarantine());
                    }
                    return json{{"now", std::move(now)}, {"lost", lost ? to_json(*lost) : json()}};
                  }));
    LoadOutcome outcome;
    outcome.checkpoint = std::move(checkpoint);
    for (const json& q : told.at("now")) outcome.quarantined.push_back(quarantined_from(q));
    if (!told.at("lost").is_null()) outcome.lost = quarantined_from(told.at("lost"));
    return outcome;
  }

  CheckpointDirectory& directory_;
  const Group& group_;
  std::int32_t generation_ = 0;
  std::vector<Quarantined> quarantined_;  // rank 0
};

}  // namespace

Result<LoadOutcome> load_latest_collectively(CheckpointDirectory& directory, const Group& group,
                                             std::int32_t generation) {
  try {
    return Loader(directory, group).run(generation);
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, "cannot load a checkpoint: {}", error.what());
  }
}

}  // namespace muster::checkpoint
