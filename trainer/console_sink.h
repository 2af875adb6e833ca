// Events as readable lines on standard output, for the rank's log and for those who start muster-train by
// hand.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/event_sink.h"

namespace muster {

// One line for an event, without newline; empty for events that are not worth a line. Pure.
std::string console_line(const nlohmann::json& event);

class ConsoleSink final : public EventSink {
 public:
  // A line that cannot be written is lost; standard error is told of the first.
  void emit(const nlohmann::json& event) override;

 private:
  bool told_ = false;
};

// Passes each event to several sinks, none of them owned.
class TeeSink final : public EventSink {
 public:
  explicit TeeSink(std::vector<EventSink*> sinks) : sinks_(std::move(sinks)) {}
  void emit(const nlohmann::json& event) override {
    for (EventSink* sink : sinks_) sink->emit(event);
  }

 private:
  std::vector<EventSink*> sinks_;
};

}  // namespace muster
