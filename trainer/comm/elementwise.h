// Sums of plain arrays: the only arithmetic that collectives do.
//
// Every addition is one IEEE operation of the element's own type, left + right, in that order; bytes add
// modulo 256. Pointers are aligned for the element type.
#pragma once

#include <cstddef>

#include "trainer/comm/communicator.h"

namespace muster::comm {

// target[i] = left[i] + right[i]. target may be left or right itself, and otherwise overlaps neither.
void add(void* target, const void* left, const void* right, std::size_t count, DType dtype);

}  // namespace muster::comm
