#include "trainer/checkpoint/hdf5_store.h"

#include "common/checkpoint/verify.h"
#include "common/sha256.h"
#include "trainer/checkpoint/assemble.h"
#include "trainer/checkpoint/hdf5_image.h"
#include "trainer/checkpoint/hdf5_load.h"
#include "trainer/checkpoint/staged_save.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What a save needs beyond the tensors: HDF5's own structures, manifest, directory blocks.
constexpr std::int64_t kOverheadBytes = 1 << 20;

class Hdf5Stages final : public SaveStages {
 public:
  Hdf5Stages(const Hdf5StoreOptions& options, int rank, FileOps& files, CheckpointDirectory& directory)
      : options_(options), rank_(rank), files_(files), directory_(directory) {}

  Status prepare(const SaveRequest& request, std::int64_t bytes) override {
    MUSTER_TRY(directory_.claim(request.generation));
    MUSTER_ASSIGN(const FreeSpace space, options_.free_space(options_.directory));
    if (space.bytes < bytes + kOverheadBytes) {
      return fail(ErrorCode::kNoSpace, "a checkpoint of {} bytes does not fit into {}: {} bytes are {}",
                  bytes, options_.directory.string(), space.bytes, space.limit);
    }
    MUSTER_TRY(directory_.open_partial(request.generation, request.step));
    return {};
  }

  Result<json> write(const SaveRequest& request) override {
    std::int64_t bytes = 0;
    for (const TensorSlice& slice : request.slices) bytes += slice_bytes(slice);
    if (bytes == 0) return rank_answer(request.slices, nullptr);
    const std::string name = rank_file_name(rank_);
    MUSTER_ASSIGN(const FileImage image, build_rank_image(name, request.slices));
    if (const Status status = write_new_file(files_, partial_of(request) / name, image.bytes); !status) {
      if (status.error().code != ErrorCode::kNotFound) return tl::unexpected<Error>(status.error());
      // Rank 0 made that directory. Where its fence is seen, somebody has removed it since.
      if (directory_.is_claimed_by(request.generation))
        return fail(ErrorCode::kIo, "{}: somebody removed the directory", status.error().message);
      return fail(ErrorCode::kUnavailable,
                  "{}, which rank 0 made: the checkpoint directory must lie on a file system that all ranks "
                  "share",
                  status.error().message);
    }
    return rank_answer(request.slices, &image.entry);
  }

  Result<SaveReport> commit(const SaveRequest& request, const std::vector<json>& answers) override {
    const fs::path partial = partial_of(request);
    MUSTER_ASSIGN(Manifest manifest, assemble_manifest(request, options_.code, answers));
    MUSTER_TRY(check_visible(partial, manifest));
    // Looked at first: it says what is wrong with a state that cannot be stored.
    MUSTER_TRY(manifest_to_text(manifest));
    MUSTER_ASSIGN(FileImage master, build_master_image(manifest));
    MUSTER_TRY(write_new_file(files_, partial / kMasterFile, master.bytes));
    manifest.files.push_back(std::move(master.entry));
    MUSTER_ASSIGN(const std::string text, manifest_to_text(manifest));
    MUSTER_TRY(write_new_file(files_, partial / kManifestFile, as_byte_span(text)));
    MUSTER_ASSIGN(const fs::path path,
                  directory_.commit(partial, manifest, sha256_hex(text.data(), text.size())));
    SaveReport report;
    report.path = path.string();
    report.bytes = total_bytes(manifest) + static_cast<std::int64_t>(text.size());
    report.warnings = directory_.clean_up(path, manifest.generation);
    return report;
  }

  void abandon(const SaveRequest& request) override { directory_.drop_partial(partial_of(request)); }

 private:
  fs::path partial_of(const SaveRequest& request) const {
    return options_.directory / partial_directory_name(request.generation, request.step);
  }

  // Rank 0 sees the files that the others wrote, or the file system is not one.
  Status check_visible(const fs::path& partial, const Manifest& manifest) const {
    for (const StoredFile& file : manifest.files) {
      struct stat info {};
      const int found = uninterrupted([&] { return files_.stat(partial / file.name, info); });
      if (found < 0 && found != -ENOENT) {
        return fail(error_code_of_errno(-found), "cannot look at {}: {}", (partial / file.name).string(),
                    errno_text(-found));
      }
      if (found < 0 || info.st_size != file.bytes) {
        return fail(
            ErrorCode::kUnavailable,
            "rank 0 does not see {} as its rank wrote it: the checkpoint directory must lie on a file "
            "system that all ranks share",
            (partial / file.name).string());
      }
    }
    return {};
  }

  const Hdf5StoreOptions& options_;
  int rank_;
  FileOps& files_;
  CheckpointDirectory& directory_;
};

class Hdf5Store final : public CheckpointStore {
 public:
  Hdf5Store(Hdf5StoreOptions options, Group group, FileOps& files)
      : options_(std::move(options)),
        group_(std::move(group)),
        directory_(options_.directory, files, options_.retention),
        stages_(options_, group_.rank, files, directory_),
        save_(group_, stages_) {}

  Status begin_save(const SaveRequest& request) override { return save_.begin(request); }
  bool saving() const override { return save_.in_flight(); }
  bool busy() const override { return save_.busy(); }
  Result<std::optional<SaveReport>> advance() override { return save_.advance(); }
  Result<SaveReport> finish_save(std::chrono::milliseconds timeout) override { return save_.finish(timeout); }

  Result<LoadOutcome> load_latest() override {
    return load_latest_collectively(directory_, group_, options_.generation);
  }

 private:
  Hdf5StoreOptions options_;
  Group group_;
  CheckpointDirectory directory_;
  Hdf5Stages stages_;
  StagedSave save_;
};

}  // namespace

Result<std::unique_ptr<CheckpointStore>> open_hdf5_store(Hdf5StoreOptions options, Group group,
                                                         FileOps& files) {
  if (options.directory.empty()) return fail(ErrorCode::kInvalidArgument, "no checkpoint directory is given");
  MUSTER_TRY(check_retention(options.retention));
  std::error_code error;
  options.directory = fs::absolute(options.directory, error);
  if (error)
    return fail(ErrorCode::kIo, "cannot make the checkpoint directory absolute: {}", error.message());
  return std::make_unique<Hdf5Store>(std::move(options), std::move(group), files);
}

}  // namespace muster::checkpoint
