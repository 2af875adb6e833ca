#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "common/checkpoint/find_checkpoint.h"
#include "common/checkpoint/tensor_reader.h"
#include "common/file_ops.h"
#include "common/json_fields.h"
#include "common/version.h"
#include "trainer/commands/command_line.h"
#include "trainer/commands/commands.h"
#include "trainer/exit_codes.h"
#include "trainer/export/parameter_file.h"
#include "trainer/standard_output.h"
#include "trainer/stored_parameters.h"

namespace muster::commands {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

Result<exporting::ParameterFile> read_parameter_file(const checkpoint::FoundCheckpoint& stored) {
  const nlohmann::json configuration = stored.manifest.state.value("configuration", nlohmann::json::object());
  exporting::ParameterFile file;
  file.metadata = {{"checkpoint_manifest_sha256", stored.manifest_sha256},
                   {"created", stored.manifest.created},
                   {"exported_by", fmt::format("muster-train {}", kVersion)},
                   {"model", text_field(configuration, "model")},
                   {"run_id", text_field(configuration, "run_id")},
                   {"step", fmt::format("{}", stored.manifest.step)}};
  const checkpoint::TensorReader reader(stored.path, stored.manifest);
  for (const checkpoint::TensorInfo& info : stored.manifest.tensors) {
    if (!info.name.starts_with(kParameterPrefix)) continue;
    exporting::ExportedTensor tensor{info.name.substr(kParameterPrefix.size()), info.shape, {}};
    std::size_t elements = 1;
    for (const std::int64_t size : info.shape) elements *= static_cast<std::size_t>(size);
    tensor.values.resize(elements);
    MUSTER_TRY(reader.read_rows(info.name, 0, info.shape.at(0), tensor.values.data()));
    file.tensors.push_back(std::move(tensor));
  }
  if (file.tensors.empty())
    return fail(ErrorCode::kInvalidArgument, "{} holds no parameters", stored.path.string());
  return file;
}

Result<std::string> file_bytes(const exporting::ParameterFile& file, const fs::path& out) {
  if (out.extension() == ".safetensors") return exporting::safetensors_bytes(file);
  return exporting::hdf5_bytes(file);
}

Status run(const fs::path& checkpoint, const fs::path& out, bool force) {
  if (out.extension() != ".safetensors" && out.extension() != ".h5") {
    return fail(ErrorCode::kInvalidArgument, "{} ends in '{}'; allowed: .h5, .safetensors", out.string(),
                out.extension().string());
  }
  std::error_code ignored;
  if (fs::is_directory(out, ignored))
    return fail(ErrorCode::kInvalidArgument, "{} is a directory; a file is to be written", out.string());
  if (!force && fs::exists(out, ignored))
    return fail(ErrorCode::kAlreadyExists, "{} is there already; --force replaces it", out.string());
  MUSTER_ASSIGN(const checkpoint::FoundCheckpoint stored,
                checkpoint::find_checkpoint(checkpoint, checkpoint::Verify::kEverything));
  for (const std::string& damage : stored.passed_over)
    fmt::print(stderr, "muster-train export: {}\n", damage);
  MUSTER_ASSIGN(const exporting::ParameterFile file, read_parameter_file(stored));
  MUSTER_ASSIGN(const std::string bytes, file_bytes(file, out));
  // Whatever the reason (no such folder, too), it is not that something was found wrong.
  if (const Status written = publish_file(posix_file_ops(), out, bytes); !written)
    return fail(ErrorCode::kNotStored, "{}", written.error().message);
  return print_out(fmt::format("{}: {} parameters of step {} ({})\n", out.string(), file.tensors.size(),
                               stored.manifest.step, stored.path.string()));
}

}  // namespace

int export_parameters(int argc, const char* const* argv) {
  po::options_description flags("Options");
  flags.add_options()("force", po::bool_switch(), "replace a file that is there");
  const CommandLine line = parse_command_line(
      "usage: muster-train export CHECKPOINT OUT.h5|OUT.safetensors [--force]\n\n"
      "Writes the parameters of a checkpoint (step-…, or a directory of checkpoints: the newest sound one) "
      "as\n"
      "one file, after verifying every byte of it.",
      flags, 2, argc, argv);
  if (line.exit_code) return *line.exit_code;
  const Status done = run(line.arguments[0], line.arguments[1], line.flags["force"].as<bool>());
  if (done) return contract::kExitDone;
  fmt::print(stderr, "muster-train export: {}\n", done.error().message);
  return exit_code_of(as_command_error(done.error()));
}

}  // namespace muster::commands
