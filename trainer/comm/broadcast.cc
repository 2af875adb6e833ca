#include "trainer/comm/broadcast.h"

#include <utility>

namespace muster::comm {

Schedule plan_broadcast(const Shape& shape, int root) {
  ScheduleBuilder builder(shape);
  // Ranks counted from the root. The parent has the lowest set bit cleared; the children set a lower one.
  const int self = (shape.rank - root + shape.size) % shape.size;
  const int parent = self & (self - 1);
  const int child_limit = self == 0 ? shape.size : self & -self;
  const ElementRange all{0, shape.count};
  for (std::size_t k = 0; k < shape.segments(all); ++k) {
    const ElementRange range = shape.segment(all, k);
    const int arrived =
        self == 0 ? ScheduleBuilder::kNone
                  : builder.receive((parent + root) % shape.size, shape.output(range), range.count, {});
    for (int bit = 1; bit < child_limit && self + bit < shape.size; bit *= 2)
      builder.send((self + bit + root) % shape.size, shape.output(range), range.count, {arrived});
  }
  return std::move(builder).finish();
}

}  // namespace muster::comm
