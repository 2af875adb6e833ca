// What a cluster's own commands tell about it, as a site profile to begin with. Pure: recorded outputs in,
// the text of a site.yaml out. What is certain stands there as keys; what is a guess, or depends on what
// people want, stands in comments, and so does every question that found no answer. parse_site_profile()
// reads it.
#pragma once

#include <string>
#include <vector>

namespace muster::slurm {

// One command's answer, or why there is none.
struct RecordedOutput {
  std::string text;
  std::string failure;  // empty: `text` is the answer
};

struct SiteOutputs {
  RecordedOutput config;        // scontrol show config
  RecordedOutput partitions;    // scontrol show partition -o
  RecordedOutput nodes;         // scontrol show node -o
  RecordedOutput sinfo;         // sinfo -a -o "%P|%a|%l|%D|%G"
  RecordedOutput qos;           // sacctmgr -P show qos
  RecordedOutput associations;  // sacctmgr -P show assoc user=USER
  RecordedOutput mpi;           // srun --mpi=list, both streams
  std::string user;
};

// The commands above, in that order, each as words.
struct SiteCommand {
  RecordedOutput SiteOutputs::*output;
  std::vector<std::string> words;
};
std::vector<SiteCommand> site_commands(const std::string& user);

struct DetectedSite {
  std::string yaml;
  // What could not be found out: "WHAT, because WHY".
  std::vector<std::string> unknown;
};
DetectedSite detect_site(const SiteOutputs& outputs);

}  // namespace muster::slurm
