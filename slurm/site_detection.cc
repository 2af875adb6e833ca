#include "slurm/site_detection.h"

#include <algorithm>
#include <cctype>

#include "slurm/site_facts.h"

namespace muster::slurm {

namespace {

// A site.yaml is printable text in UTF-8, whatever a cluster's commands print.
std::string printable(std::string_view text) {
  std::string clean(text);
  std::replace_if(
      clean.begin(), clean.end(),
      [](unsigned char c) { return std::isprint(c) == 0 && c != '\n' && c != '\t' && c != '\r'; }, '?');
  return clean;
}

std::string first_line(std::string_view text) {
  std::string line = printable(text.substr(0, text.find_first_of("\r\n")));
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

}  // namespace

std::vector<SiteCommand> site_commands(const std::string& user) {
  return {
      {&SiteOutputs::config, {"scontrol", "show", "config"}},
      {&SiteOutputs::partitions, {"scontrol", "show", "partition", "-o"}},
      {&SiteOutputs::nodes, {"scontrol", "show", "node", "-o"}},
      {&SiteOutputs::sinfo, {"sinfo", "-a", "-o", "%P|%a|%l|%D|%G"}},
      {&SiteOutputs::qos, {"sacctmgr", "-P", "show", "qos"}},
      {&SiteOutputs::associations, {"sacctmgr", "-P", "show", "assoc", "user=" + user}},
      {&SiteOutputs::mpi, {"srun", "--mpi=list"}},
  };
}

DetectedSite detect_site(const SiteOutputs& outputs) {
  SiteOutputs clean = outputs;
  clean.user = first_line(outputs.user);
  for (const SiteCommand& command : site_commands("")) {
    RecordedOutput& output = clean.*command.output;
    output.text = printable(output.text);
    output.failure = first_line(output.failure);
  }
  const SiteFacts facts = read_site_facts(clean);
  return {site_facts_to_yaml(facts), facts.unknown};
}

}  // namespace muster::slurm
