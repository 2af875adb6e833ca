#include "trainer/comm/schedule.h"

#include <algorithm>
#include <utility>

namespace muster::comm {

ElementRange slice_of(std::size_t count, int rank, int size) {
  const auto parts = static_cast<std::size_t>(size);
  const auto part = static_cast<std::size_t>(rank);
  const std::size_t begin = count * part / parts;
  return {begin, count * (part + 1) / parts - begin};
}

ElementRange Shape::segment(const ElementRange& range, std::size_t index) const {
  const std::size_t skipped = index * segment_elements;
  return {range.begin + skipped, std::min(segment_elements, range.count - skipped)};
}

ScheduleBuilder::ScheduleBuilder(const Shape& shape)
    : sent_(static_cast<std::size_t>(shape.size)), received_(static_cast<std::size_t>(shape.size)) {
  int heard = kNone;
  for (int distance = 1; distance < shape.size; distance *= 2) {
    send(shape.neighbour(distance), {}, 0, {heard});
    heard = receive(shape.neighbour(-distance), {}, 0, {heard});
  }
}

int ScheduleBuilder::send(int peer, Place source, std::size_t count, std::initializer_list<int> after) {
  const std::uint32_t chunk = sent_[static_cast<std::size_t>(peer)]++;
  return append({Action::Kind::kSend, peer, chunk, count, {}, source, {}}, after);
}

int ScheduleBuilder::receive(int peer, Place target, std::size_t count, std::initializer_list<int> after) {
  const std::uint32_t chunk = received_[static_cast<std::size_t>(peer)]++;
  return append({Action::Kind::kReceive, peer, chunk, count, target, {}, {}}, after);
}

int ScheduleBuilder::add(Place target, Place left, Place right, std::size_t count,
                         std::initializer_list<int> after) {
  return append({Action::Kind::kAdd, -1, 0, count, target, left, right}, after);
}

int ScheduleBuilder::copy(Place target, Place source, std::size_t count, std::initializer_list<int> after) {
  return append({Action::Kind::kCopy, -1, 0, count, target, source, {}}, after);
}

void ScheduleBuilder::depend(int action, int before) {
  if (before >= 0) schedule_.dependencies.push_back({before, action});
}

Place ScheduleBuilder::reserve_scratch(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const Place place{Place::kScratch, schedule_.scratch_bytes};
  schedule_.scratch_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return place;
}

int ScheduleBuilder::append(const Action& action, std::initializer_list<int> after) {
  const int number = static_cast<int>(schedule_.actions.size());
  schedule_.actions.push_back(action);
  for (const int before : after) depend(number, before);
  return number;
}

}  // namespace muster::comm
