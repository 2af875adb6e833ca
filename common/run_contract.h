// The run contract: what the launcher promises to every rank it starts, and what ranks may tell it.
// It is the only coupling between `muster` and the programs it runs. Documented for users in
// docs/run_contract.md.
#pragma once

#include <string_view>

namespace muster::contract {

// Raised when a launcher and a trainer (or agent) could misunderstand each other; they refuse to mix.
inline constexpr int kProtocolVersion = 1;

// ---- Environment of every rank, set in the task only -------------------------------------------------
// What PyTorch's env:// rendezvous reads:
inline constexpr const char* kRank = "RANK";
inline constexpr const char* kWorldSize = "WORLD_SIZE";
inline constexpr const char* kLocalRank = "LOCAL_RANK";
inline constexpr const char* kLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr const char* kNodeRank = "NODE_RANK";
inline constexpr const char* kMasterAddr = "MASTER_ADDR";
inline constexpr const char* kMasterPort = "MASTER_PORT";
// muster's own:
inline constexpr const char* kRunId = "MUSTER_RUN_ID";
inline constexpr const char* kAttempt = "MUSTER_ATTEMPT";  // 1, 2, …; also the generation
inline constexpr const char* kRunDir = "MUSTER_RUN_DIR";
inline constexpr const char* kCheckpointDir = "MUSTER_CHECKPOINT_DIR";
inline constexpr const char* kDataDir = "MUSTER_DATA_DIR";
inline constexpr const char* kStopSignal = "MUSTER_STOP_SIGNAL";  // a name: SIGUSR1
// Where ranks send events: tcp://ADDRESS:PORT. Absent: nobody listens, and that is fine.
inline constexpr const char* kEvents = "MUSTER_EVENTS";
// Name of the network interface to use between nodes. Absent: the one that routes to the peers.
inline constexpr const char* kNetworkInterface = "MUSTER_NETWORK_INTERFACE";

// The secret that a rank shows on the event channel: this file in MUSTER_RUN_DIR, mode 600, hex text.
inline constexpr const char* kChannelKeyFile = "channel.key";

// ---- Exit codes of a program, as the supervisor reads them ---------------------------------------------
inline constexpr int kExitDone = 0;
inline constexpr int kExitNotStored = 74;  // the state could not be saved; starting again would redo the work
inline constexpr int kExitRetry = 75;  // a fault outside the program (peer lost, node trouble): start again
inline constexpr int kExitDoNotRetry = 78;  // bad configuration or data: starting again cannot help
inline constexpr int kExitRequeue = 85;     // stopped as asked, checkpoint saved: start again to go on
// Any other code, or death by a signal: a crash, retried within the crash budget.

// ---- Exit codes of `muster` itself ----------------------------------------------------------------------
// `muster run` gives 0 when the task is done, the program's own code (128 + N for signal N) when its failure
// ended the run, and otherwise one of these. `muster exec` becomes the program, so its code is the program's.
inline constexpr int kMusterOk = 0;
inline constexpr int kMusterUsage = 64;         // bad command line
inline constexpr int kMusterBadTaskFile = 65;   // the task file (or a host file) has errors
inline constexpr int kMusterNotFound = 66;      // no such file, program, data, run or checkpoint
inline constexpr int kMusterUnavailable = 69;   // requested, but this version or machine cannot do it
inline constexpr int kMusterInternal = 70;      // a broken invariant: please report it
inline constexpr int kMusterVerifyFailed = 71;  // a checkpoint, or a run's own file, is damaged
inline constexpr int kMusterIo = 74;            // the operating system refused a read or write
inline constexpr int kMusterTimedOut = 75;      // `checkpoint now`: not within the time that was given
inline constexpr int kMusterTaskChanged =
    76;  // the task file differs from the run's: --new or --accept-changes
inline constexpr int kMusterLeaseHeld = 77;  // another muster holds this run
inline constexpr int kMusterStopped = 85;    // stopped as asked; the same command goes on
inline constexpr int kMusterKilled = 130;    // killed: by a second Ctrl-C, when the grace was over, …

// ---- Events, one JSON object a line ---------------------------------------------------------------------
// Every event has "event" (a name below) and, filled in by the sender's channel, "generation", "rank",
// "node". The first line on a connection is kHello with "protocol", "version", "run", "generation", "rank",
// "world_size", "node", "pid", "key", "program". Events of another generation are dropped and counted.
namespace event {
// from ranks
inline constexpr std::string_view kHello = "hello";
// muster exec is about to become "argv": pid, launcher, environment, master_addr, master_port
inline constexpr std::string_view kExec = "exec";
// configuration (resolved), code, world_size, communicator, total_steps
inline constexpr std::string_view kConfiguration = "configuration";
// what is not as it was when the checkpoint was made: configuration, code (each key with before and now)
inline constexpr std::string_view kConfigurationChanged = "configuration_changed";
inline constexpr std::string_view kResumed = "resumed";  // step, epoch, checkpoint (path), world_size_then
inline constexpr std::string_view kInitialised =
    "initialised";  // path, step, manifest_sha256: parameters came from another run's checkpoint
inline constexpr std::string_view kStep =
    "step";  // step, epoch, loss, gradient_norm, learning_rate, samples_per_s, total_steps
inline constexpr std::string_view kStepSkipped = "step_skipped";  // step, reason: a batch without an update
inline constexpr std::string_view kEvaluation = "evaluation";     // step, epoch, loss, accuracy, samples
inline constexpr std::string_view kCheckpointBegun = "checkpoint_begun";  // step
// step, path, bytes, seconds, held_up_seconds (training waited), steps_meanwhile, requests, warnings
inline constexpr std::string_view kCheckpoint = "checkpoint";
inline constexpr std::string_view kCheckpointQuarantined = "checkpoint_quarantined";  // path, reason
inline constexpr std::string_view kCheckpointFailed =
    "checkpoint_failed";  // step, reason, retry_seconds, requests
inline constexpr std::string_view kCheckpointSlow = "checkpoint_slow";  // step, seconds: it goes on
// interval_seconds, save_seconds, mtbf_seconds, automatic (it is used), text
inline constexpr std::string_view kCheckpointAdvice = "checkpoint_advice";
inline constexpr std::string_view kStopSeen = "stop_seen";  // step after which all ranks stop
// from each rank, only with --log-samples: step, epoch, shard, ids
inline constexpr std::string_view kSamples = "samples";
inline constexpr std::string_view kEarlyStop =
    "early_stop";  // step, metric, best, best_step, reason: no further steps
inline constexpr std::string_view kFault = "fault";        // exit_code, reason, peer (rank blamed) or null
inline constexpr std::string_view kFinished = "finished";  // step, result (an object shown to the user)
// from the supervisor, journal only
inline constexpr std::string_view kRunStarted = "run_started";  // run, task, task_file, version, continued
// attempt, world_size, argv, environment (secrets are ***), hosts, events (the address)
inline constexpr std::string_view kAttemptStarted = "attempt_started";
// attempt, verdict, evidence, progress (a new checkpoint)
inline constexpr std::string_view kAttemptEnded = "attempt_ended";
inline constexpr std::string_view kSignal = "signal";  // signal, meaning: stop, kill, sent to the ranks
inline constexpr std::string_view kTaskChanged = "task_changed";      // differences that were accepted
inline constexpr std::string_view kSaveRequested = "save_requested";  // request, refused (why) or null
inline constexpr std::string_view kRunEnded = "run_ended";            // state, exit_code, verdict, wall_s
// from the supervisor to rank 0's program
inline constexpr std::string_view kSave = "save";  // request: the checkpoint events that answer it name it
}  // namespace event

}  // namespace muster::contract
