#include "trainer/comm/ring.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace muster::comm {
namespace {

constexpr int kNone = ScheduleBuilder::kNone;
constexpr std::size_t kSlots = 8;  // received segments that wait for their sum

class RingPlanner {
 public:
  explicit RingPlanner(const Shape& shape) : shape_(shape), builder_(shape) {
    for (int chunk = 0; chunk < shape.size; ++chunk)
      segments_.emplace_back(shape.segments(shape.slice(chunk)));
  }

  // output = sum of the inputs
  void fold_inputs(int inputs) {
    for (int chunk = 0; chunk < shape_.size; ++chunk) {
      for (std::size_t k = 0; k < segments(chunk); ++k) {
        const ElementRange range = range_of(chunk, k);
        const Place sum = shape_.output(range);
        int& written = state(chunk, k).written;
        written = inputs > 1
                      ? builder_.add(sum, shape_.input(0, range), shape_.input(1, range), range.count, {})
                      : builder_.copy(sum, shape_.input(0, range), range.count, {});
        for (int i = 2; i < inputs; ++i)
          written = builder_.add(sum, sum, shape_.input(i, range), range.count, {written});
      }
    }
  }

  // Ends with the sum of chunk `rank` on every rank.
  void reduce_scatter() {
    std::array<int, kSlots> slot_user;
    slot_user.fill(kNone);
    const std::size_t slot_bytes = shape_.segment_elements * shape_.element_bytes;
    std::array<Place, kSlots> slots;
    if (shape_.size > 1 && shape_.count > 0)
      for (Place& slot : slots) slot = builder_.reserve_scratch(slot_bytes);
    std::size_t received = 0;
    for (int step = 0; step < shape_.size - 1; ++step) {
      const int out = shape_.neighbour(-step - 1);
      const int in = shape_.neighbour(-step - 2);
      for (std::size_t k = 0; k < std::max(segments(out), segments(in)); ++k) {
        if (k < segments(out)) send(out, k);
        if (k >= segments(in)) continue;
        const std::size_t slot = received++ % kSlots;
        const ElementRange range = range_of(in, k);
        const Place own = shape_.output(range);
        const int arrived = builder_.receive(left(), slots[slot], range.count, {slot_user[slot]});
        int& written = state(in, k).written;
        written = builder_.add(own, own, slots[slot], range.count, {arrived, written});
        slot_user[slot] = written;
      }
    }
  }

  // Begins with chunk `rank` complete on every rank.
  void all_gather() {
    for (int step = 0; step < shape_.size - 1; ++step) {
      const int out = shape_.neighbour(-step);
      const int in = shape_.neighbour(-step - 1);
      for (std::size_t k = 0; k < std::max(segments(out), segments(in)); ++k) {
        if (k < segments(out)) send(out, k);
        if (k >= segments(in)) continue;
        const ElementRange range = range_of(in, k);
        Segment& segment = state(in, k);
        // An earlier send of the same memory must be over before it is overwritten.
        segment.written =
            builder_.receive(left(), shape_.output(range), range.count, {segment.written, segment.sent});
      }
    }
  }

  Schedule finish() && { return std::move(builder_).finish(); }

 private:
  struct Segment {
    int written = kNone;  // the last action that wrote it
    int sent = kNone;     // the last action that sent it
  };

  int left() const { return shape_.neighbour(-1); }
  int right() const { return shape_.neighbour(1); }
  std::size_t segments(int chunk) const { return segments_[static_cast<std::size_t>(chunk)].size(); }
  Segment& state(int chunk, std::size_t k) { return segments_[static_cast<std::size_t>(chunk)][k]; }
  ElementRange range_of(int chunk, std::size_t k) const { return shape_.segment(shape_.slice(chunk), k); }

  void send(int chunk, std::size_t k) {
    const ElementRange range = range_of(chunk, k);
    Segment& segment = state(chunk, k);
    segment.sent = builder_.send(right(), shape_.output(range), range.count, {segment.written});
  }

  Shape shape_;
  ScheduleBuilder builder_;
  std::vector<std::vector<Segment>> segments_;  // [chunk][segment]
};

}  // namespace

Schedule plan_ring_reduce_scatter(const Shape& shape) {
  RingPlanner planner(shape);
  planner.reduce_scatter();
  return std::move(planner).finish();
}

Schedule plan_ring_all_gather(const Shape& shape) {
  RingPlanner planner(shape);
  planner.all_gather();
  return std::move(planner).finish();
}

Schedule plan_ring_all_reduce(const Shape& shape) {
  RingPlanner planner(shape);
  planner.reduce_scatter();
  planner.all_gather();
  return std::move(planner).finish();
}

Schedule plan_ring_all_reduce_inputs(const Shape& shape, int partials) {
  RingPlanner planner(shape);
  planner.fold_inputs(partials);
  planner.reduce_scatter();
  planner.all_gather();
  return std::move(planner).finish();
}

}  // namespace muster::comm
