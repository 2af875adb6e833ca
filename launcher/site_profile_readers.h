// The parts of parse_site_profile, one a group of keys. Private to the parser.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/site_profile.h"
#include "launcher/yaml_reader.h"

namespace muster::site_file {

// Where each alias of a GPU stands, in the order of GpuType::aliases; by the GPU's name. Holds those GPUs
// whose aliases the file gives.
using AliasPositions = std::map<std::string, std::vector<SourcePosition>>;

// Reads the whole file into the profile: keys that it gives replace what is there.
void read_file(GroupReader& file, SiteProfile& profile, AliasPositions& aliases);

void read_gpus(GroupReader group, std::map<std::string, GpuType>& gpus, AliasPositions& aliases);
void read_preemption(GroupReader group, PreemptionFacts& preemption);
void read_sbatch_options(GroupReader& file, std::vector<std::string>& options);

// A word that Slurm's options take as it is, or "" for none.
bool read_name(GroupReader& group, std::string_view key, std::string& name);

// What is wrong with one of `sbatch_options`, in words that go on after "found 'OPTION'"; empty: nothing.
std::string sbatch_option_fault(std::string_view option);

// A GPU's name as it is compared: GPUs are called H100 by one and h100 by another.
std::string folded(std::string_view name);

}  // namespace muster::site_file
