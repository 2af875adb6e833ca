#include "trainer/checkpoint/memory_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/checkpoint/layout.h"
#include "common/sha256.h"
#include "trainer/checkpoint/assemble.h"
#include "trainer/checkpoint/collective.h"
#include "trainer/checkpoint/staged_save.h"

namespace muster::checkpoint {
namespace {

using nlohmann::json;

// "memory:step-…": not a path, but it names the checkpoint in messages.
std::string name_of(std::int64_t step) { return "memory:" + step_directory_name(step); }

// The first dataset whose bytes are not what was written.
std::optional<std::string> find_damage(const MemoryCheckpoints::Checkpoint& checkpoint) {
  for (const StoredFile& file : checkpoint.manifest.files) {
    const auto& bytes = checkpoint.files.at(file.name);
    for (const StoredRows& rows : file.datasets) {
      if (sha256_hex(bytes.data() + rows.offset, static_cast<std::size_t>(rows.bytes)) != rows.sha256) {
        return fmt::format("{} is damaged (in dataset {})", file.name, rows.tensor);
      }
    }
  }
  return std::nullopt;
}

class MemoryCheckpoint final : public LoadedCheckpoint {
 public:
  explicit MemoryCheckpoint(std::shared_ptr<const MemoryCheckpoints::Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)) {}

  std::string path() const override { return name_of(checkpoint_->manifest.step); }
  const json& state() const override { return checkpoint_->manifest.state; }

  std::vector<std::string> tensor_names() const override {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : checkpoint_->manifest.tensors) names.push_back(tensor.name);
    return names;
  }

  Result<std::vector<std::int64_t>> shape(std::string_view name) const override {
    const TensorInfo* tensor = find_tensor(checkpoint_->manifest, name);
    if (tensor == nullptr) return fail(ErrorCode::kNotFound, "{} has no tensor '{}'", path(), name);
    return tensor->shape;
  }

  Status read_rows(std::string_view name, std::int64_t row_begin, std::int64_t row_end, float* out) override {
    MUSTER_ASSIGN(const auto tensor_shape, shape(name));
    if (row_begin < 0 || row_begin > row_end || row_end > tensor_shape.front()) {
      return fail(ErrorCode::kInvalidArgument, "rows [{}, {}) of tensor '{}' do not exist: it has {} rows",
                  row_begin, row_end, name, tensor_shape.front());
    }
    const std::int64_t elements = row_elements(tensor_shape);
    for (const StoredFile& file : checkpoint_->manifest.files) {
      for (const StoredRows& rows : file.datasets) {
        const std::int64_t begin = std::max(row_begin, rows.row_begin);
        const std::int64_t end = std::min(row_end, rows.row_end);
        if (rows.tensor != name || begin >= end) continue;
        const std::byte* data = checkpoint_->files.at(file.name).data() + rows.offset;
        std::memcpy(out + (begin - row_begin) * elements,
                    data + (begin - rows.row_begin) * elements * kElementBytes,
                    static_cast<std::size_t>((end - begin) * elements * kElementBytes));
      }
    }
    return {};
  }

 private:
  std::shared_ptr<const MemoryCheckpoints::Checkpoint> checkpoint_;
};

class MemoryStages final : public SaveStages {
 public:
  MemoryStages(const MemoryStoreOptions& options, int rank) : options_(options), rank_(rank) {}

  Status prepare(const SaveRequest& request, std::int64_t /*bytes*/) override {
    return options_.backing->claim(request.generation);
  }

  Result<json> write(const SaveRequest& request) override {
    StoredFile file;
    file.name = rank_file_name(rank_);
    std::vector<std::byte> bytes;
    for (const TensorSlice& slice : request.slices) {
      if (slice_bytes(slice) == 0) continue;
      StoredRows rows = describe_slice(slice);
      rows.offset = static_cast<std::int64_t>(bytes.size());
      rows.sha256 = sha256_hex(slice.data, static_cast<std::size_t>(rows.bytes));
      const auto* data = reinterpret_cast<const std::byte*>(slice.data);
      bytes.insert(bytes.end(), data, data + rows.bytes);
      file.datasets.push_back(std::move(rows));
    }
    file.bytes = static_cast<std::int64_t>(bytes.size());
    file.sha256 = sha256_hex(bytes.data(), bytes.size());
    json answer = rank_answer(request.slices, bytes.empty() ? nullptr : &file);
    options_.backing->stage(file.name, std::move(bytes));
    return answer;
  }

  Result<SaveReport> commit(const SaveRequest& request, const std::vector<json>& answers) override {
    MUSTER_ASSIGN(Manifest manifest, assemble_manifest(request, options_.code, answers));
    // Through text and back, as everything that is stored.
    MUSTER_ASSIGN(const std::string text, manifest_to_text(manifest));
    MUSTER_ASSIGN(manifest, parse_manifest(text));
    SaveReport report;
    report.path = name_of(request.step);
    report.bytes = total_bytes(manifest);
    MUSTER_TRY(options_.backing->commit(std::move(manifest), options_.retention));
    return report;
  }

  void abandon(const SaveRequest&) override {}  // the next claim() clears what was staged

 private:
  const MemoryStoreOptions& options_;
  int rank_;
};

class MemoryStore final : public CheckpointStore {
 public:
  MemoryStore(MemoryStoreOptions options, Group group)
      : options_(std::move(options)),
        group_(std::move(group)),
        stages_(options_, group_.rank),
        save_(group_, stages_) {}

  Status begin_save(const SaveRequest& request) override { return save_.begin(request); }
  bool saving() const override { return save_.in_flight(); }
  bool busy() const override { return save_.busy(); }
  Result<std::optional<SaveReport>> advance() override { return save_.advance(); }
  Result<SaveReport> finish_save(std::chrono::milliseconds timeout) override { return save_.finish(timeout); }

  Result<LoadOutcome> load_latest() override {
    MUSTER_ASSIGN(const json found, agree_after_rank_0(group_, [&] { return find_sound(); }));
    LoadOutcome outcome;
    for (const json& q : found.at("quarantined")) {
      outcome.quarantined.push_back({q.at("path").get<std::string>(), q.at("reason").get<std::string>()});
    }
    if (found.at("step").is_null()) outcome.lost = options_.backing->newest_in_quarantine();
    if (!found.at("step").is_null()) {
      auto newest = options_.backing->find(found.at("step").get<std::int64_t>());
      if (!newest) return fail(ErrorCode::kAborted, "the checkpoint was removed");
      outcome.checkpoint = std::make_unique<MemoryCheckpoint>(std::move(newest));
    }
    return outcome;
  }

 private:
  Result<json> find_sound() {
    MemoryCheckpoints& backing = *options_.backing;
    MUSTER_TRY(backing.claim(options_.generation));
    json quarantined = json::array();
    for (;;) {
      const auto steps = backing.steps();
      if (steps.empty()) return json{{"step", nullptr}, {"quarantined", std::move(quarantined)}};
      const auto damage = find_damage(*backing.find(steps.back()));
      if (!damage) return json{{"step", steps.back()}, {"quarantined", std::move(quarantined)}};
      quarantined.push_back({{"path", name_of(steps.back())}, {"reason", *damage}});
      backing.quarantine(steps.back(), {name_of(steps.back()), *damage});
    }
  }

  MemoryStoreOptions options_;
  Group group_;
  MemoryStages stages_;
  StagedSave save_;
};

}  // namespace

std::vector<std::int64_t> MemoryCheckpoints::steps() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> steps;
  for (const auto& [step, checkpoint] : committed_) steps.push_back(step);
  return steps;
}

std::shared_ptr<const MemoryCheckpoints::Checkpoint> MemoryCheckpoints::find(std::int64_t step) const {
  const std::lock_guard lock(mutex_);
  const auto at = committed_.find(step);
  return at == committed_.end() ? nullptr : at->second;
}

void MemoryCheckpoints::damage_newest() {
  const std::lock_guard lock(mutex_);
  if (committed_.empty()) return;
  auto& newest = committed_.rbegin()->second;
  Checkpoint copy = *newest;
  for (auto& [name, bytes] : copy.files) {
    if (!bytes.empty()) bytes.front() ^= std::byte{1};
  }
  newest = std::make_shared<const Checkpoint>(std::move(copy));
}

Status MemoryCheckpoints::claim(std::int32_t generation) {
  const std::lock_guard lock(mutex_);
  MUSTER_TRY(check_generation(generation));
  newest_generation_ = generation;
  staged_.clear();
  return {};
}

Status MemoryCheckpoints::check_generation(std::int32_t generation) const {
  if (newest_generation_ <= generation) return {};
  return fail(ErrorCode::kAborted, "attempt {} has taken over the checkpoints; this is attempt {}",
              newest_generation_, generation);
}

void MemoryCheckpoints::stage(const std::string& file, std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  staged_[file] = std::move(bytes);
}

Status MemoryCheckpoints::commit(Manifest manifest, const Retention& retention) {
  const std::lock_guard lock(mutex_);
  MUSTER_TRY(check_generation(manifest.generation));
  const std::int64_t newest = manifest.step;
  committed_[newest] =
      std::make_shared<const Checkpoint>(Checkpoint{std::move(manifest), std::exchange(staged_, {})});
  std::vector<std::optional<double>> metrics;
  for (const auto& [step, stored] : committed_) metrics.push_back(stored->manifest.metric);
  const std::vector<bool> keep = kept(retention, metrics);
  std::size_t index = 0;
  std::erase_if(committed_, [&](const auto& entry) { return !keep[index++] && entry.first != newest; });
  return {};
}

void MemoryCheckpoints::quarantine(std::int64_t step, Quarantined entry) {
  const std::lock_guard lock(mutex_);
  committed_.erase(step);
  quarantined_[step] = std::move(entry);
}

std::optional<Quarantined> MemoryCheckpoints::newest_in_quarantine() const {
  const std::lock_guard lock(mutex_);
  if (quarantined_.empty()) return std::nullopt;
  return quarantined_.rbegin()->second;
}

void MemoryCheckpoints::forget_quarantined() {
  const std::lock_guard lock(mutex_);
  quarantined_.clear();
}

Result<std::unique_ptr<CheckpointStore>> open_memory_store(MemoryStoreOptions options, Group group) {
  MUSTER_TRY(check_retention(options.retention));
  return std::make_unique<MemoryStore>(std::move(options), std::move(group));
}

}  // namespace muster::checkpoint
