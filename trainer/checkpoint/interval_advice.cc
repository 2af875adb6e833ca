#include "trainer/checkpoint/interval_advice.h"

#include <algorithm>
#include <cmath>

namespace muster::checkpoint {

double daly_interval_s(double save_s, double mtbf_s) {
  if (save_s >= 2 * mtbf_s) return mtbf_s;
  const double ratio = save_s / (2 * mtbf_s);
  return std::sqrt(2 * save_s * mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save_s;
}

double advised_interval_s(double save_s, double mtbf_s) {
  constexpr double kShortest_s = 1;
  constexpr double kLongest_s = 86400;
  const double floor_s = std::max(save_s, kShortest_s);
  return std::min(std::max(daly_interval_s(save_s, mtbf_s), floor_s), std::max(kLongest_s, floor_s));
}

}  // namespace muster::checkpoint
