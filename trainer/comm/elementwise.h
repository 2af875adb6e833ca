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

// first[i] = (first[i] + second[i]) + (third[i] + fourth[i]): two levels of a tree in one pass over memory.
// None overlaps another.
void add_four(void* first, const void* second, const void* third, const void* fourth, std::size_t count,
              DType dtype);

}  // namespace muster::comm
