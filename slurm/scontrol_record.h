// What scontrol prints: "Key=Value Key=Value …", one record a line (`-o`), and "Key = Value" lines of
// `scontrol show config`. Pure; safe from any thread.
//
// Values are not quoted. Some are free text with spaces, '=' and all (a comment, a job's name, a node's
// reason); such a value ends where the key begins that Slurm writes after it. Who can choose text that says
// "JobState=COMPLETED" cannot be told apart from Slurm by everybody: for jobs prefer squeue and sacct with
// chosen fields (slurm/parsable_table.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::slurm {

struct ScontrolRecord {
  std::vector<std::pair<std::string, std::string>> fields;  // in the order in which they are written

  // The first field of that name; empty if there is none.
  std::string_view text(std::string_view key) const;
  // The same; nothing for what Slurm writes in place of a value: empty, (null), N/A, NONE, None.
  std::optional<std::string> find(std::string_view key) const;
};

// One record for each line that begins with Key=. Other lines ("No jobs in the system", a banner) are passed
// over.
std::vector<ScontrolRecord> parse_scontrol_records(std::string_view text);

// The lines of `scontrol show config`; also those of its plugins' sections.
ScontrolRecord parse_scontrol_config(std::string_view text);

}  // namespace muster::slurm
