#include "launcher/commands/run_argument.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "common/run_contract.h"
#include "launcher/run_index.h"

namespace muster::commands {

std::string run_argument_help() { return fmt::format("RUN is {}.", kRunArgumentForms); }

NamedRun named_run(const ParsedLine& line) {
  auto run = resolve_run(line.values[kRunArgument].as<std::vector<std::string>>().front());
  if (!run) return {{}, report_run_error(run.error())};
  return {*std::move(run), std::nullopt};
}

int report_run_error(const Error& error) {
  const int exit_code = report_error(error);
  if (error.code == ErrorCode::kInvalidArgument) return contract::kMusterUsage;
  if (error.code == ErrorCode::kAlreadyExists) return contract::kMusterLeaseHeld;
  return exit_code;
}

}  // namespace muster::commands
