// Where a rank's events go. Emitting never fails and never blocks the caller for long: losing a progress line
// must not lose a step.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace muster {

class EventSink {
 public:
  virtual ~EventSink() = default;
  // `event` holds "event" (see run_contract.h) and its own fields.
  virtual void emit(const nlohmann::json& event) = 0;
};

}  // namespace muster
