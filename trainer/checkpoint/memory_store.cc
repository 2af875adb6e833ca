#include "trainer/checkpoint/memory_store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/checkpoint/layout.h"
#include "common/sha256.h"
#include "trainer/checkpoint/assemble.h"
#include "trainer/checkpoint/collective.h"

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

}  // namespace

std::vector<std::int64_t> MemoryCheckpoints::steps() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> steps;
  for (const auto& [step, checkpoint] : committed_) steps.push_back(step);
  return steps;
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

class MemoryStore final : public CheckpointStore {
 public:
  MemoryStore(MemoryStoreOptions options, Group group)
      : options_(std::move(options)), backing_(*options_.backing), group_(std::move(group)) {}

  Result<SaveReport> save(const SaveRequest& request) override {
    const auto begin = std::chrono::steady_clock::now();
    MUSTER_TRY(agree_on_save(group_, request));
    MUSTER_TRY(agree_after_rank_0(group_, [&] { return claim(request.generation); }));
    MUSTER_ASSIGN(const auto staged, agree_after(group_, [&] { return stage(request); }));
    MUSTER_ASSIGN(const json bytes, agree_after_rank_0(group_, [&] { return commit(request, staged); }));
    SaveReport report;
    report.path = name_of(request.step);
    report.bytes = bytes.get<std::int64_t>();
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return report;
  }

  Result<LoadOutcome> load_latest() override {
    MUSTER_TRY(agree_after_rank_0(group_, [&] { return claim(options_.generation); }));
    MUSTER_ASSIGN(const json found, agree_after_rank_0(group_, [&] { return find_sound(); }));
    LoadOutcome outcome;
    for (const json& q : found.at("quarantined")) {
      outcome.quarantined.push_back({q.at("path").get<std::string>(), q.at("reason").get<std::string>()});
    }
    if (!found.at("step").is_null()) {
      const std::lock_guard lock(backing_.mutex_);
      const auto at = backing_.committed_.find(found.at("step").get<std::int64_t>());
      if (at == backing_.committed_.end()) return fail(ErrorCode::kAborted, "the checkpoint was removed");
      outcome.checkpoint = std::make_unique<MemoryCheckpoint>(at->second);
    }
    return outcome;
  }

 private:
  Result<json> claim(std::int32_t generation) {
    const std::lock_guard lock(backing_.mutex_);
    MUSTER_TRY(check_generation(generation));
    backing_.newest_generation_ = generation;
    backing_.staged_.clear();
    return json();
  }

  Status check_generation(std::int32_t generation) const {
    if (backing_.newest_generation_ <= generation) return {};
    return fail(ErrorCode::kAborted, "attempt {} has taken over the checkpoints; this is attempt {}",
                backing_.newest_generation_, generation);
  }

  Result<json> stage(const SaveRequest& request) {
    StoredFile file;
    file.name = rank_file_name(group_.rank);
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
    const std::lock_guard lock(backing_.mutex_);
    backing_.staged_[file.name] = std::move(bytes);
    return answer;
  }

  Result<json> commit(const SaveRequest& request, const std::vector<json>& staged) {
    MemoryCheckpoints::Checkpoint checkpoint;
    MUSTER_ASSIGN(checkpoint.manifest, assemble_manifest(request, options_.code, staged));
    // Through text and back, as everything that is stored.
    MUSTER_ASSIGN(const std::string text, manifest_to_text(checkpoint.manifest));
    MUSTER_ASSIGN(checkpoint.manifest, parse_manifest(text));
    const std::int64_t bytes = total_bytes(checkpoint.manifest);
    const std::lock_guard lock(backing_.mutex_);
    MUSTER_TRY(check_generation(request.generation));
    checkpoint.files = std::exchange(backing_.staged_, {});
    auto& committed = backing_.committed_;
    committed[request.step] = std::make_shared<const MemoryCheckpoints::Checkpoint>(std::move(checkpoint));
    std::vector<std::optional<double>> metrics;
    for (const auto& [step, stored] : committed) metrics.push_back(stored->manifest.metric);
    const std::vector<bool> keep = kept(options_.retention, metrics);
    std::size_t index = 0;
    std::erase_if(committed,
                  [&](const auto& entry) { return !keep[index++] && entry.first != request.step; });
    return json(bytes);
  }

  Result<json> find_sound() {
    const std::lock_guard lock(backing_.mutex_);
    json quarantined = json::array();
    auto& committed = backing_.committed_;
    while (!committed.empty()) {
      const auto newest = std::prev(committed.end());
      const auto damage = find_damage(*newest->second);
      if (!damage) return json{{"step", newest->first}, {"quarantined", std::move(quarantined)}};
      quarantined.push_back({{"path", name_of(newest->first)}, {"reason", *damage}});
      committed.erase(newest);
    }
    return json{{"step", nullptr}, {"quarantined", std::move(quarantined)}};
  }

  MemoryStoreOptions options_;
  MemoryCheckpoints& backing_;
  Group group_;
};

Result<std::unique_ptr<CheckpointStore>> open_memory_store(MemoryStoreOptions options, Group group) {
  MUSTER_TRY(check_retention(options.retention));
  return std::make_unique<MemoryStore>(std::move(options), std::move(group));
}

}  // namespace muster::checkpoint
