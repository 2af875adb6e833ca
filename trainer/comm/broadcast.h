// From one rank to all, down a binomial tree and cut into segments that follow each other. Pure planning.
#pragma once

#include "trainer/comm/schedule.h"

namespace muster::comm {

Schedule plan_broadcast(const Shape& shape, int root);

}  // namespace muster::comm
