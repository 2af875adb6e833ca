// Keys that task files and site profiles write in the same form. Each function behaves like those of
// GroupReader: true if the key is there and its value good.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/environment.h"
#include "launcher/yaml_reader.h"

namespace muster {

// The group's entries, all of them: NAME: value, or NAME: {secret: value}. Variables that every rank gets
// from muster, MPI or Slurm are refused. Values never appear in messages.
void read_environment(GroupReader group, std::vector<EnvironmentVariable>& environment);

// The name of a network interface.
bool read_interface(GroupReader& group, std::string_view key, std::string& interface);

// From a second to a year, or `unlimited`, which leaves nothing in `limit`.
bool read_time_limit(GroupReader& group, std::string_view key,
                     std::optional<std::chrono::milliseconds>& limit);

}  // namespace muster
