// Why a job waits, in words for its user: Slurm's reason codes, as squeue (%r, %R) and scontrol show them.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::slurm {

struct WaitReason {
  enum class Kind {
    kInTurn,   // passes by itself
    kLimit,    // passes when other jobs of the user, the account or the QOS end
    kHeld,     // somebody must release the job
    kNever,    // the job cannot start as it was asked for
    kNoReason  // none was given
  };
  Kind kind = Kind::kInTurn;
  bool known = true;     // false: a code that is not in the table, taken for one that passes by itself
  std::string sentence;  // without a full stop, the code in round brackets; an unknown one as it is
};

// Takes the code in round brackets or without, with '_' or ' ' between words, and with what Slurm adds after
// a comma ("ReqNodeNotAvail, UnavailableNodes:n[3-4]"), which the sentence repeats.
WaitReason explain_wait(std::string_view reason);

}  // namespace muster::slurm
