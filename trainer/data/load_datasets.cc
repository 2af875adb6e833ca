#include "trainer/data/dataset.h"
#include "trainer/data/hdf5_dataset.h"
#include "trainer/data/idx_dataset.h"

namespace muster::data {

Result<DatasetPair> load_datasets(const std::string& name, const std::filesystem::path& directory) {
  if (name == "idx") return load_idx_datasets(directory);
  if (name == "hdf5") return load_hdf5_datasets(directory);
  return fail(ErrorCode::kInvalidArgument, "unknown dataset '{}'; allowed: idx, hdf5", name);
}

}  // namespace muster::data
