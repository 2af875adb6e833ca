// A collective as one rank sees it: messages and sums, and which of them must be finished before others.
//
// Schedules are made by pure functions of (rank, size, count, …) and run by an Operation. Between two ranks
// both sides list their messages in the same order, and each action comes after everything it depends on, so
// schedules run without deadlock however few messages are in flight at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace muster::comm {

// Where bytes live. Buffer kOutput is the caller's, kScratch the communicator's, kFirstInput + i the i-th
// partial sum that the caller passed (read only).
struct Place {
  static constexpr int kOutput = 0;
  static constexpr int kScratch = 1;
  static constexpr int kFirstInput = 2;
  int buffer = kOutput;
  std::size_t offset_bytes = 0;
};

struct Action {
  enum class Kind : std::uint8_t {
    kSend,     // `left` to peer
    kReceive,  // from peer into `target`
    kAdd,      // target = left + right
    kCopy      // target = left
  };
  Kind kind = Kind::kCopy;
  int peer = -1;
  std::uint32_t chunk = 0;  // which message to (or from) this peer it is
  std::size_t count = 0;    // elements
  Place target;
  Place left;
  Place right;
};

struct Dependency {
  int before = 0;
  int after = 0;
};

struct Schedule {
  std::vector<Action> actions;
  std::vector<Dependency> dependencies;
  std::size_t scratch_bytes = 0;
};

// Elements [begin, begin + count)
struct ElementRange {
  std::size_t begin = 0;
  std::size_t count = 0;
};

// The part of `count` elements that belongs to a rank: [count * rank / size, count * (rank + 1) / size).
ElementRange slice_of(std::size_t count, int rank, int size);

// What every planner needs to know.
struct Shape {
  int rank = 0;
  int size = 1;
  std::size_t count = 0;
  std::size_t element_bytes = 1;
  std::size_t segment_elements = 1;  // longest message, and the unit of pipelining

  int neighbour(int distance) const { return ((rank + distance) % size + size) % size; }
  ElementRange slice(int owner) const { return slice_of(count, owner, size); }
  std::size_t segments(const ElementRange& range) const {
    return (range.count + segment_elements - 1) / segment_elements;
  }
  ElementRange segment(const ElementRange& range, std::size_t index) const;
  Place output(const ElementRange& range) const { return {Place::kOutput, range.begin * element_bytes}; }
  Place input(int partial, const ElementRange& range) const {
    return {Place::kFirstInput + partial, range.begin * element_bytes};
  }
};

// Builds a Schedule. The functions return the number of the new action; numbers below zero in `after` are
// skipped, so kNone stands for "nothing to wait for".
class ScheduleBuilder {
 public:
  static constexpr int kNone = -1;

  // Every schedule begins with the agreement: log2(size) rounds of bare headers, after which each rank has
  // heard, directly or through others, from all. So no collective succeeds anywhere unless every rank called
  // it with the same arguments.
  explicit ScheduleBuilder(const Shape& shape);

  int send(int peer, Place source, std::size_t count, std::initializer_list<int> after);
  int receive(int peer, Place target, std::size_t count, std::initializer_list<int> after);
  int add(Place target, Place left, Place right, std::size_t count, std::initializer_list<int> after);
  int copy(Place target, Place source, std::size_t count, std::initializer_list<int> after);
  void depend(int action, int before);

  // Reserves bytes of scratch, aligned for vector instructions.
  Place reserve_scratch(std::size_t bytes);

  Schedule finish() && { return std::move(schedule_); }

 private:
  int append(const Action& action, std::initializer_list<int> after);

  Schedule schedule_;
  std::vector<std::uint32_t> sent_;      // messages so far to each peer
  std::vector<std::uint32_t> received_;  // and from each
};

}  // namespace muster::comm
