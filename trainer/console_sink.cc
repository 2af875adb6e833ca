#include "trainer/console_sink.h"

#include <fmt/format.h>

#include <cstdio>

#include "common/run_contract.h"
#include "trainer/standard_output.h"

namespace muster {
namespace {

using nlohmann::json;

std::string field(const json& event, const char* key) {
  const auto it = event.find(key);
  if (it == event.end() || it->is_null()) return "-";
  if (it->is_string()) return it->get<std::string>();
  if (it->is_number_float()) return fmt::format("{:.6g}", it->get<double>());
  return it->dump();
}

// "learning_rate: 0.01 then, 0.02 now"
void add_changes(const json& changes, std::string& text) {
  for (const auto& [key, change] : changes.items()) {
    text += fmt::format("{} {}: {} then, {} now", text.empty() ? "" : ";", key, field(change, "before"),
                        field(change, "now"));
  }
}

}  // namespace

std::string console_line(const json& event) {
  namespace name = contract::event;
  const std::string kind = event.value("event", "");
  const auto f = [&](const char* key) { return field(event, key); };
  if (kind == name::kStep) {
    return fmt::format("step {}/{} epoch {} loss {} lr {} {} samples/s", f("step"), f("total_steps"),
                       f("epoch"), f("loss"), f("learning_rate"), f("samples_per_s"));
  }
  if (kind == name::kEvaluation) {
    return fmt::format("evaluation at step {}: loss {} accuracy {} on {} samples", f("step"), f("loss"),
                       f("accuracy"), f("samples"));
  }
  if (kind == name::kCheckpoint)
    return fmt::format("checkpoint {} ({} bytes, {} s)", f("path"), f("bytes"), f("seconds"));
  if (kind == name::kCheckpointFailed)
    return fmt::format("the checkpoint of step {} is not stored: {}", f("step"), f("reason"));
  if (kind == name::kCheckpointAdvice) return f("text");
  if (kind == name::kConfigurationChanged) {
    std::string changes;
    for (const char* group : {"configuration", "code"}) add_changes(event.at(group), changes);
    return "changed since the checkpoint was made:" + changes;
  }
  if (kind == name::kSamples || kind == name::kCheckpointBegun) return "";
  return event.dump();
}

void ConsoleSink::emit(const json& event) {
  const std::string line = console_line(event);
  if (line.empty()) return;
  const Status printed = print_out(line + "\n");
  if (printed || told_) return;
  told_ = true;
  fmt::print(stderr, "muster-train: {}; training goes on\n", printed.error().message);
}

}  // namespace muster
