#include "trainer/checkpoint/hdf5_store.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <chrono>

#include "common/checkpoint/verify.h"
#include "common/sha256.h"
#include "trainer/checkpoint/assemble.h"
#include "trainer/checkpoint/collective.h"
#include "trainer/checkpoint/hdf5_image.h"
#include "trainer/checkpoint/hdf5_load.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What a save needs beyond the tensors: HDF5's own structures, manifest, directory blocks.
constexpr std::int64_t kOverheadBytes = 1 << 20;

class Hdf5Store final : public CheckpointStore {
 public:
  Hdf5Store(Hdf5StoreOptions options, Group group, FileOps& files)
      : options_(std::move(options)),
        group_(std::move(group)),
        files_(files),
        directory_(options_.directory, files, options_.retention) {}

  Result<SaveReport> save(const SaveRequest& request) override {
    try {
      return save_collectively(request);
    } catch (const std::exception& error) {
      return fail(ErrorCode::kInternal, "cannot save a checkpoint: {}", error.what());
    }
  }

  Result<LoadOutcome> load_latest() override {
    return load_latest_collectively(directory_, group_, options_.generation);
  }

 private:
  Result<SaveReport> save_collectively(const SaveRequest& request) {
    const auto begin = std::chrono::steady_clock::now();
    MUSTER_ASSIGN(const std::int64_t bytes, agree_on_save(group_, request));
    MUSTER_TRY(agree_after_rank_0(group_, [&] { return prepare(request, bytes); }));
    const fs::path partial = options_.directory / partial_directory_name(request.generation, request.step);
    const auto written = agree_after(group_, [&] { return write_rank_file(partial, request); });
    if (!written) {
      if (group_.rank == 0) directory_.drop_partial(partial);
      return tl::unexpected(written.error());
    }
    MUSTER_ASSIGN(const json committed,
                  agree_after_rank_0(group_, [&] { return commit(partial, request, *written); }));
    SaveReport report;
    report.path = (options_.directory / committed.at("name").get<std::string>()).string();
    report.bytes = committed.at("bytes").get<std::int64_t>();
    report.warnings = committed.at("warnings").get<std::vector<std::string>>();
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return report;
  }

  Result<json> prepare(const SaveRequest& request, std::int64_t bytes) {
    MUSTER_TRY(directory_.claim(request.generation));
    MUSTER_ASSIGN(const std::int64_t free, options_.free_bytes(options_.directory));
    if (free < bytes + kOverheadBytes) {
      return fail(ErrorCode::kNoSpace, "a checkpoint of {} bytes does not fit: {} bytes are free in {}",
                  bytes, free, options_.directory.string());
    }
    MUSTER_TRY(directory_.open_partial(request.generation, request.step));
    return json();
  }

  Result<json> write_rank_file(const fs::path& partial, const SaveRequest& request) {
    std::int64_t bytes = 0;
    for (const TensorSlice& slice : request.slices) bytes += slice_bytes(slice);
    if (bytes == 0) return rank_answer(request.slices, nullptr);
    const std::string name = rank_file_name(group_.rank);
    MUSTER_ASSIGN(const FileImage image, build_rank_image(name, request.slices));
    if (const Status status = write_new_file(files_, partial / name, image.bytes); !status) {
      const bool gone = status.error().code == ErrorCode::kNotFound;
      return fail(status.error().code, "{}{}", status.error().message,
                  gone ? " (rank 0 made that directory: do all ranks share the file system?)" : "");
    }
    return rank_answer(request.slices, &image.entry);
  }

  // Rank 0 sees the files that the others wrote, or the file system is not one.
  static Status check_visible(const fs::path& partial, const Manifest& manifest) {
    for (const StoredFile& file : manifest.files) {
      std::error_code error;
      const auto size = fs::file_size(partial / file.name, error);
      if (error || size != static_cast<std::uintmax_t>(file.bytes)) {
        return fail(
            ErrorCode::kUnavailable,
            "rank 0 does not see {} as its rank wrote it: the checkpoint directory must lie on a file "
            "system that all ranks share",
            (partial / file.name).string());
      }
    }
    return {};
  }

  Result<json> commit(const fs::path& partial, const SaveRequest& request, const std::vector<json>& by_rank) {
    const auto complete = [&]() -> Result<std::pair<Manifest, std::string>> {
      MUSTER_ASSIGN(Manifest manifest, assemble_manifest(request, options_.code, by_rank));
      MUSTER_TRY(check_visible(partial, manifest));
      // Looked at first: it says what is wrong with a state that cannot be stored.
      MUSTER_TRY(manifest_to_text(manifest));
      MUSTER_ASSIGN(FileImage master, build_master_image(manifest));
      MUSTER_TRY(write_new_file(files_, partial / kMasterFile, master.bytes));
      manifest.files.push_back(std::move(master.entry));
      MUSTER_ASSIGN(std::string text, manifest_to_text(manifest));
      MUSTER_TRY(write_new_file(files_, partial / kManifestFile, as_byte_span(text)));
      return std::pair(std::move(manifest), std::move(text));
    };
    const auto completed = complete();
    if (!completed) {
      directory_.drop_partial(partial);
      return tl::unexpected(completed.error());
    }
    const auto& [manifest, text] = *completed;
    MUSTER_ASSIGN(const fs::path path,
                  directory_.commit(partial, manifest, sha256_hex(text.data(), text.size())));
    return json{{"name", path.filename().string()},
                {"bytes", total_bytes(manifest) + static_cast<std::int64_t>(text.size())},
                {"warnings", directory_.clean_up(path)}};
  }

  Hdf5StoreOptions options_;
  Group group_;
  FileOps& files_;
  CheckpointDirectory directory_;
};

}  // namespace

Result<std::int64_t> free_bytes_on_disk(const fs::path& path) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) {
    return fail(error_code_of_errno(errno), "cannot tell the free space of {}: {}", path.string(),
                errno_text(errno));
  }
  return static_cast<std::int64_t>(info.f_bavail * info.f_frsize);
}

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
