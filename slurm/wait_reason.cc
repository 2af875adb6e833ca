#include "slurm/wait_reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace muster::slurm {

namespace {

using Kind = WaitReason::Kind;

struct Explanation {
  std::string_view code;
  Kind kind;
  std::string_view words;
};

constexpr std::array kExplanations{
    Explanation{"Resources", Kind::kInTurn, "waits for nodes to become free"},
    Explanation{"Priority", Kind::kInTurn, "waits behind jobs of higher priority"},
    Explanation{"BeginTime", Kind::kInTurn,
                "waits for its earliest start time; Slurm holds a requeued job so"},
    Explanation{"Cleaning", Kind::kInTurn, "waits for what is left of its previous start to end"},
    Explanation{"Dependency", Kind::kInTurn, "waits for another job that it depends on"},
    Explanation{"Licenses", Kind::kInTurn, "waits for a licence"},
    Explanation{"Reservation", Kind::kInTurn, "waits for its reservation to begin"},
    Explanation{"Prolog", Kind::kInTurn, "waits for the site's prolog on its nodes"},
    Explanation{"SchedDefer", Kind::kInTurn, "waits for the scheduler's next round"},
    Explanation{"None", Kind::kInTurn, "waits for the scheduler to look at it"},
    Explanation{"ReqNodeNotAvail", Kind::kInTurn, "waits for nodes that are down, drained or reserved"},
    Explanation{"NodeDown", Kind::kInTurn, "waits for a node that is down"},
    Explanation{"PartitionDown", Kind::kInTurn, "waits for its partition, which is down"},
    Explanation{"PartitionInactive", Kind::kInTurn, "waits for its partition, which starts no jobs now"},
    Explanation{"FrontEndDown", Kind::kInTurn, "waits for a front end, which is down"},
    Explanation{"FedJobLock", Kind::kInTurn, "waits for the other clusters of the federation"},
    Explanation{"BurstBufferResources", Kind::kInTurn, "waits for room in the burst buffer"},
    Explanation{"BurstBufferStageIn", Kind::kInTurn, "waits for its data to be staged in"},
    Explanation{"PowerNotAvail", Kind::kInTurn, "waits for electrical power"},
    Explanation{"PowerReserved", Kind::kInTurn, "waits for electrical power that is reserved"},
    Explanation{"Nodes required for job are DOWN", Kind::kInTurn,
                "waits for nodes that are down, drained or reserved"},
    Explanation{"JobArrayTaskLimit", Kind::kLimit, "waits for other tasks of its array to end"},
    Explanation{"AssociationJobLimit", Kind::kLimit, "waits: the account's limit of jobs is reached"},
    Explanation{"AssociationResourceLimit", Kind::kLimit, "waits: a limit of the account is reached"},
    Explanation{"AssocMaxJobsLimit", Kind::kLimit,
                "waits for other jobs of yours to end: their number is limited"},
    Explanation{"QOSJobLimit", Kind::kLimit, "waits: the QOS's limit of jobs is reached"},
    Explanation{"QOSResourceLimit", Kind::kLimit, "waits: a limit of the QOS is reached"},
    Explanation{"QOSUsageThreshold", Kind::kLimit, "waits: the QOS has used up its share for now"},
    Explanation{"QOSMaxJobsPerUserLimit", Kind::kLimit,
                "waits for other jobs of yours to end: the QOS limits their number"},
    Explanation{"MaxMemPerLimit", Kind::kNever, "asks for more memory than the partition allows"},
    Explanation{"JobHeldUser", Kind::kHeld, "is held by its user; `scontrol release` lets it go"},
    Explanation{"JobHeldAdmin", Kind::kHeld, "is held by an administrator"},
    Explanation{"JobHoldMaxRequeue", Kind::kHeld,
                "was requeued too often and is held; `scontrol release` lets it go"},
    Explanation{
        "launch failed requeued held", Kind::kHeld,
        "could not be started on its nodes (prolog, spool directory or credentials) and is held; `scontrol "
        "release` lets it try again"},
    Explanation{"job requeued in held state", Kind::kHeld,
                "was requeued and is held; `scontrol release` lets it go"},
    Explanation{"JobLaunchFailure", Kind::kHeld, "could not be started on its nodes"},
    Explanation{"DependencyNeverSatisfied", Kind::kNever,
                "depends on a job that did not end as it should have"},
    Explanation{"BadConstraints", Kind::kNever,
                "asks for what no nodes have together (constraint, GPUs, memory)"},
    Explanation{"PartitionNodeLimit", Kind::kNever,
                "asks for more nodes than the partition allows, or has up"},
    Explanation{"PartitionTimeLimit", Kind::kNever, "asks for a longer time than the partition allows"},
    Explanation{"PartitionConfig", Kind::kNever, "asks for what its partition does not allow"},
    Explanation{"AssociationTimeLimit", Kind::kNever, "asks for a longer time than the account allows"},
    Explanation{"QOSTimeLimit", Kind::kNever, "asks for a longer time than the QOS allows"},
    Explanation{"InvalidAccount", Kind::kNever, "names an account that it may not use"},
    Explanation{"InvalidQOS", Kind::kNever, "names a QOS that it may not use"},
    Explanation{"QOSNotAllowed", Kind::kNever, "names a QOS that the partition or account does not allow"},
    Explanation{"AccountNotAllowed", Kind::kNever, "names an account that the partition does not allow"},
    Explanation{"AccountingPolicy", Kind::kNever, "asks for what the accounting does not allow"},
    Explanation{"ReservationDeleted", Kind::kHeld, "is held: its reservation is gone"},
    Explanation{"DeadLine", Kind::kNever, "cannot end before its deadline"},
    Explanation{"BurstBufferOperation", Kind::kHeld, "failed at its burst buffer"},
};

std::string folded(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return c == '_' ? ' ' : static_cast<char>(std::tolower(c)); });
  return lower;
}

// Slurm has a code for each resource that a QOS or an account can limit, and more with each version.
std::string_view words_of_limit(std::string_view code, Kind& kind) {
  const auto begins = [&](std::string_view front) { return code.starts_with(front); };
  const auto has = [&](std::string_view part) { return code.find(part) != std::string_view::npos; };
  const bool of_qos = begins("QOS");
  const bool of_association = begins("Assoc");
  if (of_qos && has("PerUser")) {
    kind = Kind::kLimit;
    return "waits for other jobs of yours to end: the QOS limits what they use together";
  }
  if (of_qos && begins("QOSGrp")) {
    kind = Kind::kLimit;
    return "waits for other jobs of the QOS to end, which limits what they use together";
  }
  if (of_association && begins("AssocGrp")) {
    kind = Kind::kLimit;
    return "waits for other jobs of the account to end, which limits what they use together";
  }
  if (begins("Max") && has("PerAccount")) {
    kind = Kind::kLimit;
    return "waits for other jobs of the account to end: the QOS limits what they use together";
  }
  if ((of_qos || of_association) && has("Submit")) {
    kind = Kind::kLimit;
    return "waits: as many jobs are submitted as may be";
  }
  kind = Kind::kNever;
  if (begins("QOSMin")) return "asks for less than the QOS demands";
  if (begins("QOSMax")) return "asks for more than the QOS allows to one job";
  if (begins("AssocMax")) return "asks for more than the account allows to one job";
  return {};
}

}  // namespace

WaitReason explain_wait(std::string_view reason) {
  if (reason.starts_with('(') && reason.ends_with(')')) reason = reason.substr(1, reason.size() - 2);
  if (reason.empty()) return {WaitReason::Kind::kNoReason, true, ""};
  const std::size_t comma = std::min(reason.find(','), reason.size());
  const std::string_view code = reason.substr(0, comma);
  const std::string wanted = folded(code);
  const auto known = std::find_if(kExplanations.begin(), kExplanations.end(),
                                  [&](const Explanation& entry) { return folded(entry.code) == wanted; });
  WaitReason explained;
  std::string_view words;
  if (known != kExplanations.end()) {
    explained.kind = known->kind;
    words = known->words;
  } else {
    words = words_of_limit(code, explained.kind);
  }
  if (words.empty()) return {WaitReason::Kind::kInTurn, false, std::string(reason)};
  explained.sentence = fmt::format("{} ({})", words, reason);
  return explained;
}

}  // namespace muster::slurm
