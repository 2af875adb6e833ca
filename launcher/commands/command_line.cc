#include "launcher/commands/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/any.hpp>
#include <boost/program_options/parsers.hpp>
#include <cstdio>
#include <sstream>

#include "common/run_contract.h"

namespace muster::commands {

namespace po = boost::program_options;

namespace {

// What is empty and was given by the user, and what may stand there; nothing if all is well.
std::string empty_value(const po::variables_map& values, const CommandLine& command_line) {
  for (const auto& [name, value] : values) {
    const auto* words = boost::any_cast<std::vector<std::string>>(&value.value());
    if (words != nullptr && std::find(words->begin(), words->end(), "") != words->end()) {
      return fmt::format("{}: found an empty argument; allowed: {}", name, command_line.positional_allowed);
    }
    // A flag's value is an empty text, too.
    const po::option_description* option = command_line.options.find_nothrow(name, false);
    const auto* text = boost::any_cast<std::string>(&value.value());
    if (option != nullptr && option->semantic()->max_tokens() > 0 && text != nullptr && text->empty() &&
        !value.defaulted()) {
      return fmt::format("--{}: found an empty text; allowed: {}", name, option->description());
    }
  }
  return "";
}

}  // namespace

ParsedLine parse_command_line(CommandLine command_line, const Arguments& arguments) {
  ParsedLine parsed;
  command_line.options.add_options()("help,h", "show this");
  po::options_description all;
  all.add(command_line.options);
  po::positional_options_description positional;
  if (!command_line.positional.empty()) {
    all.add_options()(command_line.positional.c_str(), po::value<std::vector<std::string>>());
    positional.add(command_line.positional.c_str(), command_line.positional_max);
  }
  try {
    const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(arguments).options(all).positional(positional).style(style).run(),
              parsed.values);
    po::notify(parsed.values);
  } catch (const po::error& error) {
    fmt::print(stderr, "muster: {}\n\n{}\n", error.what(), command_line.usage);
    parsed.exit_code = contract::kMusterUsage;
    return parsed;
  }
  if (parsed.values.contains("help")) {
    std::ostringstream options;
    options << command_line.options;
    fmt::print("{}\n\n{}", command_line.usage, options.str());
    parsed.exit_code = contract::kMusterOk;
  } else if (!command_line.positional.empty() && !parsed.values.contains(command_line.positional)) {
    fmt::print(stderr, "muster: an argument is missing\n\n{}\n", command_line.usage);
    parsed.exit_code = contract::kMusterUsage;
  } else if (const std::string empty = empty_value(parsed.values, command_line); !empty.empty()) {
    fmt::print(stderr, "muster: {}\n", empty);
    parsed.exit_code = contract::kMusterUsage;
  }
  return parsed;
}

int report_error(const Error& error) {
  std::istringstream lines(error.message);
  for (std::string line; std::getline(lines, line);) fmt::print(stderr, "muster: {}\n", line);
  return exit_code_of(error.code);
}

int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return contract::kMusterBadTaskFile;
    case ErrorCode::kNotFound:
      return contract::kMusterNotFound;
    case ErrorCode::kUnavailable:
      return contract::kMusterUnavailable;
    case ErrorCode::kCorrupt:
      return contract::kMusterVerifyFailed;
    case ErrorCode::kIo:
    case ErrorCode::kDenied:
    case ErrorCode::kNoSpace:
    case ErrorCode::kNotStored:
      return contract::kMusterIo;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kPeerLost:
    case ErrorCode::kMismatch:
    case ErrorCode::kAborted:
    case ErrorCode::kInternal:
      break;
  }
  return contract::kMusterInternal;
}

}  // namespace muster::commands
