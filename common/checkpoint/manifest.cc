#include "common/checkpoint/manifest.h"

#include <cmath>
#include <limits>

namespace muster::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kFormatName = "muster-checkpoint";

// Reads the fields of one object; `where` names it in errors ("files[2].datasets[0]").
class Fields {
 public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

  Result<const json*> get(const char* key) const {
    if (!object_.is_object()) return fail(ErrorCode::kCorrupt, "{} is not an object", where_);
    const auto at = object_.find(key);
    if (at == object_.end()) return fail(ErrorCode::kCorrupt, "{}: field '{}' is missing", where_, key);
    return &*at;
  }

  Result<std::string> text(const char* key) const {
    MUSTER_ASSIGN(const json* value, get(key));
    if (!value->is_string()) return wrong(key, "text");
    return value->get<std::string>();
  }

  Result<std::int64_t> integer(const char* key, std::int64_t max) const {
    MUSTER_ASSIGN(const json* value, get(key));
    MUSTER_ASSIGN(const std::int64_t number, as_integer(*value, key));
    if (number > max) return wrong(key, "a smaller number");
    return number;
  }

  Result<const json*> array(const char* key) const {
    MUSTER_ASSIGN(const json* value, get(key));
    if (!value->is_array()) return wrong(key, "an array");
    return value;
  }

  Result<std::vector<std::int64_t>> integers(const char* key) const {
    MUSTER_ASSIGN(const json* values, array(key));
    std::vector<std::int64_t> numbers;
    for (const json& value : *values) {
      MUSTER_ASSIGN(const std::int64_t number, as_integer(value, key));
      numbers.push_back(number);
    }
    return numbers;
  }

  tl::unexpected<Error> wrong(const char* key, std::string_view expected) const {
    return fail(ErrorCode::kCorrupt, "{}: field '{}' is not {}", where_, key, expected);
  }

 private:
  Result<std::int64_t> as_integer(const json& value, const char* key) const {
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    // nlohmann keeps non-negative integers as unsigned.
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMax) {
      return wrong(key, "made of non-negative integers");
    }
    return value.get<std::int64_t>();
  }

  const json& object_;
  std::string where_;
};

Result<StoredRows> parse_rows(const json& object, const std::string& where) {
  const Fields fields(object, where);
  StoredRows rows;
  MUSTER_ASSIGN(rows.tensor, fields.text("tensor"));
  MUSTER_ASSIGN(const auto range, fields.integers("rows"));
  if (range.size() != 2) return fields.wrong("rows", "[begin, end]");
  rows.row_begin = range[0];
  rows.row_end = range[1];
  MUSTER_ASSIGN(const std::string dtype, fields.text("dtype"));
  if (dtype != kElementType) {
    return fail(ErrorCode::kCorrupt, "{}: dtype '{}' is not known; this version reads '{}'", where, dtype,
                kElementType);
  }
  MUSTER_ASSIGN(rows.shape, fields.integers("shape"));
  if (!check_shape(rows.shape)) return fields.wrong("shape", "a possible shape");
  if (rows.shape.front() != rows.row_end - rows.row_begin)
    return fields.wrong("shape", "in step with 'rows'");
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  MUSTER_ASSIGN(rows.offset, fields.integer("offset", kMax));
  MUSTER_ASSIGN(rows.bytes, fields.integer("bytes", kMax));
  if (rows.bytes != rows.shape.front() * row_elements(rows.shape) * kElementBytes) {
    return fields.wrong("bytes", "the size of 'shape'");
  }
  MUSTER_ASSIGN(rows.sha256, fields.text("sha256"));
  return rows;
}

Result<StoredFile> parse_file(const json& object, const std::string& where) {
  const Fields fields(object, where);
  StoredFile file;
  MUSTER_ASSIGN(file.name, fields.text("name"));
  MUSTER_ASSIGN(file.bytes, fields.integer("bytes", std::numeric_limits<std::int64_t>::max()));
  MUSTER_ASSIGN(file.sha256, fields.text("sha256"));
  MUSTER_ASSIGN(const json* datasets, fields.array("datasets"));
  for (const json& dataset : *datasets) {
    MUSTER_ASSIGN(StoredRows rows,
                  parse_rows(dataset, fmt::format("{}.datasets[{}]", where, file.datasets.size())));
    file.datasets.push_back(std::move(rows));
  }
  return file;
}

Result<Manifest> parse_document(const json& document) {
  const Fields fields(document, "manifest");
  MUSTER_ASSIGN(const std::string format, fields.text("format"));
  if (format != kFormatName)
    return fail(ErrorCode::kCorrupt, "format is '{}', not '{}'", format, kFormatName);
  constexpr auto kMaxInt = std::numeric_limits<std::int32_t>::max();
  MUSTER_ASSIGN(const std::int64_t version, fields.integer("version", kMaxInt));
  if (version != kManifestVersion) {
    return fail(ErrorCode::kUnavailable, "format version {} is not known; this program reads version {}",
                version, kManifestVersion);
  }
  Manifest manifest;
  MUSTER_ASSIGN(manifest.step, fields.integer("step", std::numeric_limits<std::int64_t>::max()));
  MUSTER_ASSIGN(const std::int64_t generation, fields.integer("generation", kMaxInt));
  MUSTER_ASSIGN(const std::int64_t world_size, fields.integer("world_size", kMaxInt));
  manifest.generation = static_cast<std::int32_t>(generation);
  manifest.world_size = static_cast<int>(world_size);
  MUSTER_ASSIGN(manifest.created, fields.text("created"));
  MUSTER_ASSIGN(manifest.code, fields.text("code"));
  MUSTER_ASSIGN(const json* metric, fields.get("metric"));
  if (!metric->is_null() && !metric->is_number()) return fields.wrong("metric", "a number or null");
  if (metric->is_number()) manifest.metric = metric->get<double>();
  MUSTER_ASSIGN(const json* state, fields.get("state"));
  manifest.state = *state;
  MUSTER_ASSIGN(const json* tensors, fields.array("tensors"));
  for (const json& tensor : *tensors) {
    const Fields of_tensor(tensor, fmt::format("tensors[{}]", manifest.tensors.size()));
    TensorInfo info;
    MUSTER_ASSIGN(info.name, of_tensor.text("name"));
    MUSTER_ASSIGN(info.shape, of_tensor.integers("shape"));
    manifest.tensors.push_back(std::move(info));
  }
  MUSTER_ASSIGN(const json* files, fields.array("files"));
  for (const json& file : *files) {
    MUSTER_ASSIGN(StoredFile stored, parse_file(file, fmt::format("files[{}]", manifest.files.size())));
    manifest.files.push_back(std::move(stored));
  }
  MUSTER_TRY(check_manifest(manifest));
  return manifest;
}

// JSON writes NaN as null, which would come back as something else.
Status check_finite(const json& value, const std::string& where) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    return fail(ErrorCode::kInvalidArgument, "the state's '{}' is not a finite number and cannot be stored",
                where);
  }
  if (value.is_structured()) {
    for (const auto& item : value.items()) MUSTER_TRY(check_finite(item.value(), where + "/" + item.key()));
  }
  return {};
}

json to_json(const Manifest& manifest) {
  json tensors = json::array();
  for (const TensorInfo& tensor : manifest.tensors) {
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  }
  json files = json::array();
  for (const StoredFile& file : manifest.files) files.push_back(stored_file_to_json(file));
  return {{"format", kFormatName},
          {"version", kManifestVersion},
          {"step", manifest.step},
          {"generation", manifest.generation},
          {"world_size", manifest.world_size},
          {"created", manifest.created},
          {"code", manifest.code},
          {"metric", manifest.metric ? json(*manifest.metric) : json()},
          {"state", manifest.state},
          {"tensors", std::move(tensors)},
          {"files", std::move(files)}};
}

}  // namespace

json stored_file_to_json(const StoredFile& file) {
  json datasets = json::array();
  for (const StoredRows& rows : file.datasets) {
    datasets.push_back({{"tensor", rows.tensor},
                        {"rows", {rows.row_begin, rows.row_end}},
                        {"shape", rows.shape},
                        {"dtype", kElementType},
                        {"offset", rows.offset},
                        {"bytes", rows.bytes},
                        {"sha256", rows.sha256}});
  }
  return {
      {"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}, {"datasets", std::move(datasets)}};
}

Result<StoredFile> stored_file_from_json(const json& object) { return parse_file(object, "file"); }

Result<std::string> manifest_to_text(const Manifest& manifest) {
  MUSTER_TRY(check_finite(manifest.state, ""));
  try {
    return to_json(manifest).dump(1) + "\n";
  } catch (const json::exception& error) {
    return fail(ErrorCode::kInvalidArgument, "the training state cannot be written as JSON: {}",
                error.what());
  }
}

Result<Manifest> parse_manifest(std::string_view text) {
  try {
    const json document = json::parse(text);
    return parse_document(document);
  } catch (const json::exception& error) {
    return fail(ErrorCode::kCorrupt, "not valid JSON: {}", error.what());
  }
}

}  // namespace muster::checkpoint
