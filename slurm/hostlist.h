// Slurm's host lists: "n[1-3,07],login" and the names it stands for. Pure; safe from any thread.
//
// Grammar, as slurm.conf(5) and scontrol(1) `show hostnames` have it: items separated by commas; in an item
// any number of bracketed lists of numbers and ranges, each of which multiplies the names, the last varying
// fastest. A range counts with the width of its first number: [08-11] is 08, 09, 10, 11.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster::slurm {

inline constexpr std::size_t kHostsMax = 65536;

// Names in the order in which they are written; repeated ones stay. Empty text: no names. kInvalidArgument,
// with what is wrong and where, for text that is no host list or stands for more than kHostsMax names.
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

// A short form: names that differ in their last number alone share an item, runs become ranges. Order and
// repetitions of names are not kept; expand_hostlist() of it gives each name once.
std::string compress_hostlist(std::vector<std::string> names);

}  // namespace muster::slurm
