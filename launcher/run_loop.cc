#include "launcher/run_loop.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/clock.h"
#include "common/file_ops.h"
#include "common/json_fields.h"
#include "common/run_contract.h"
#include "launcher/directory_stamp.h"
#include "launcher/rank_logs.h"
#include "launcher/save_requests.h"
#include "launcher/step_sampler.h"

namespace muster {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
namespace name = contract::event;

constexpr double kStepInterval_s = 1.0;
constexpr double kRequestInterval_s = 0.5;
constexpr std::size_t kLauncherLinesMax = 200;
// A second stop signal this soon is an echo of the first (timeout(1) signals the process and its group, a
// closed terminal sends SIGHUP after SIGTERM), not a wish to kill.
constexpr double kStopEcho_s = 0.5;
constexpr milliseconds kDrainWait{3000};

double steady_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

class RunLoop {
 public:
  explicit RunLoop(const RunLoopParts& parts)
      : parts_(parts), supervisor_(parts_.supervision), save_requests_(parts_.run) {}

  Result<RunLoopResult> run();

 private:
  Status prepare();
  void turn();
  int wait_ms() const;
  void feed(const supervise::Event& event);
  void perform(const supervise::Action& action);
  void start_attempt(int generation);
  void take_rank_event(const EventServer::RankEvent& event);
  void take_output();
  void take_exit();
  void drain(int fd, const std::function<bool()>& more);
  void take_signals();
  void renew_lease();
  void take_save_requests();
  void tell_about_checkpoints(const json& event);
  void run_timers();
  void tell_next(const supervise::SetTimer& timer);
  void write_journal(json event, bool durable);
  void flush_steps();
  void watch(int fd);
  void report_log_trouble();

  RunLoopParts parts_;
  supervise::Supervisor supervisor_;
  UniqueFd epoll_;
  UniqueFd signal_fd_;
  std::unique_ptr<LaunchedAttempt> attempt_;
  bool output_open_ = false;
  std::optional<RankLogs> logs_;
  std::deque<std::string> launcher_lines_;
  std::optional<DirectoryStamp> checkpoints_before_;
  std::map<supervise::TimerKind, std::pair<Clock::time_point, int>> timers_;
  std::optional<supervise::Finish> finish_;
  std::vector<supervise::Event> pending_;  // born while an action was carried out
  StepSampler steps_{kStepInterval_s};
  Progress progress_;
  double began_s_ = steady_s();
  double next_draw_s_ = 0;
  double lease_renewed_s_ = steady_s();
  double next_renewal_s_ = 0;
  SaveRequests save_requests_;
  double next_request_look_s_ = 0;
  std::optional<double> stop_asked_s_;
  std::string last_verdict_;
  bool journal_trouble_told_ = false;
  bool log_trouble_told_ = false;
  bool checkpoint_trouble_told_ = false;
};

Status RunLoop::prepare() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  signal_fd_.reset(::signalfd(-1, &parts_.signals.set(), SFD_CLOEXEC | SFD_NONBLOCK));
  if (!epoll_ || !signal_fd_)
    return fail(ErrorCode::kIo, "cannot make the event loop: {}", errno_text(errno));
  watch(signal_fd_.get());
  watch(parts_.events.fd());
  save_requests_.drop_all();
  return {};
}

void RunLoop::watch(int fd) {
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.fd = fd;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest);
}

Result<RunLoopResult> RunLoop::run() {
  MUSTER_TRY(prepare());
  feed(supervise::Begin{});
  while (!finish_) turn();
  attempt_.reset();
  if (logs_) logs_->flush();
  RunLoopResult result{*finish_, finish_->verdict.rank, "", {}};
  if (!logs_) return result;
  // A rank that died without a word is explained by the launcher, if by anything.
  if (logs_->tail(result.failed_rank).empty()) result.failed_rank = -1;
  result.failed_log = logs_->path_of(result.failed_rank).string();
  result.failed_output = logs_->tail(result.failed_rank);
  return result;
}

int RunLoop::wait_ms() const {
  Clock::time_point next = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                              std::chrono::duration<double>(parts_.console.interval_s()));
  for (const auto& [kind, timer] : timers_) next = std::min(next, timer.first);
  const auto left = std::chrono::ceil<milliseconds>(next - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

void RunLoop::turn() {
  std::array<epoll_event, 8> ready{};
  ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), wait_ms());
  take_signals();
  parts_.events.service([this](const EventServer::RankEvent& event) { take_rank_event(event); });
  take_output();
  take_exit();
  run_timers();
  renew_lease();
  take_save_requests();
  const double now = steady_s();
  if (attempt_ && now >= next_draw_s_) {
    parts_.console.progress(progress_, now);
    next_draw_s_ = now + parts_.console.interval_s();
  }
}

void RunLoop::feed(const supervise::Event& event) {
  pending_.push_back(event);
  if (pending_.size() > 1) return;  // the loop below is running already, further up the stack
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    for (const supervise::Action& action : supervisor_.on(pending_[i])) perform(action);
  }
  pending_.clear();
}

void RunLoop::perform(const supervise::Action& action) {
  if (const auto* start = std::get_if<supervise::StartAttempt>(&action)) {
    start_attempt(start->generation);
  } else if (std::get_if<supervise::SendStop>(&action) != nullptr) {
    if (!attempt_) return;
    const Status sent = attempt_->send_stop();
    write_journal({{"event", name::kSignal},
                   {"signal", parts_.plan.stop_signal},
                   {"meaning", "sent to the ranks"},
                   {"generation", supervisor_.generation()}},
                  true);
    if (!sent) parts_.console.problem("cannot pass the stop signal on: " + sent.error().message);
  } else if (std::get_if<supervise::KillAttempt>(&action) != nullptr) {
    if (attempt_) attempt_->kill();
  } else if (const auto* timer = std::get_if<supervise::SetTimer>(&action)) {
    timers_[timer->kind] = {Clock::now() + timer->duration, timer->generation};
    tell_next(*timer);
  } else if (const auto* entry = std::get_if<supervise::Journal>(&action)) {
    json event = entry->event;
    const std::string kind = text_field(event, "event");
    if (kind == name::kRunEnded) event["wall_s"] = steady_s() - began_s_;
    if (kind == name::kAttemptEnded) last_verdict_ = text_field(event["verdict"], "explanation");
    write_journal(std::move(event), true);
  } else if (const auto* finish = std::get_if<supervise::Finish>(&action)) {
    finish_ = *finish;
  }
}

void RunLoop::tell_next(const supervise::SetTimer& timer) {
  const double seconds = std::chrono::duration<double>(timer.duration).count();
  if (timer.kind == supervise::TimerKind::kBackoff) {
    parts_.console.notice(fmt::format("attempt {} ended: {}; starting again in {:.0f} s", timer.generation,
                                      last_verdict_, seconds));
  } else if (timer.kind == supervise::TimerKind::kGrace) {
    parts_.console.notice(
        fmt::format("asked the ranks to stop; they have {:.0f} s (once more: kill them now)", seconds));
  }
}

void RunLoop::start_attempt(int generation) {
  attempt_.reset();
  timers_.clear();
  launcher_lines_.clear();
  parts_.events.begin_generation(generation);
  progress_.begin_attempt(generation, steady_s());
  if (!parts_.plan.is_trainer) checkpoints_before_ = stamp_directory(parts_.run.checkpoints());
  json hosts = json::array();
  for (const Host& host : parts_.allocation.hosts)
    hosts.push_back({{"name", host.name}, {"slots", host.slots}});
  write_journal({{"event", name::kAttemptStarted},
                 {"attempt", generation},
                 {"generation", generation},
                 {"world_size", parts_.plan.world_size},
                 {"argv", parts_.plan.argv},
                 {"hosts", hosts},
                 {"events", parts_.events.address()}},
                true);
  auto logs = RankLogs::open(parts_.run.logs(generation), parts_.log_bytes_max);
  if (!logs) return feed(supervise::StartFailed{generation, logs.error().message});
  logs_.emplace(std::move(*logs));
  auto started = parts_.launcher.start(parts_.plan, parts_.run,
                                       {generation, parts_.allocation.hosts, parts_.events.address()});
  if (!started) return feed(supervise::StartFailed{generation, started.error().message});
  attempt_ = std::move(*started);
  output_open_ = true;
  watch(attempt_->output_fd());
  watch(attempt_->exit_fd());
  feed(supervise::AttemptStarted{generation});
}

void RunLoop::take_rank_event(const EventServer::RankEvent& received) {
  const json& event = received.event;
  const std::string kind = text_field(event, "event");
  const int generation = received.generation;
  const double now = steady_s();
  progress_.add(event, now);
  if (kind == name::kStep) {
    if (auto sampled = steps_.offer(event, now)) write_journal(std::move(*sampled), false);
    return;
  }
  flush_steps();
  tell_about_checkpoints(event);
  const bool decides =
      kind == name::kCheckpoint || kind == name::kFault || kind == name::kFinished || kind == name::kResumed;
  write_journal(event, decides);
  if (kind == name::kHello && received.program != "muster exec") {
    feed(supervise::RankStarted{generation, received.rank, true});
  } else if (kind == name::kExec) {
    feed(supervise::RankStarted{generation, received.rank, false});
  } else if (kind == name::kCheckpoint) {
    feed(supervise::CheckpointCommitted{generation, integer_field(event, "step", -1)});
  } else if (kind == name::kResumed) {
    feed(supervise::Resumed{generation, integer_field(event, "step", 0)});
  } else if (kind == name::kFinished) {
    feed(supervise::Finished{generation});
  } else if (kind == name::kFault) {
    RankFault fault{received.rank, received.node, static_cast<int>(integer_field(event, "exit_code", 1)),
                    text_field(event, "reason"), std::nullopt};
    const std::int64_t peer = integer_field(event, "peer", -1);
    if (peer >= 0) fault.peer = static_cast<int>(peer);
    feed(supervise::FaultReported{generation, std::move(fault)});
  }
}

void RunLoop::take_output() {
  if (!attempt_ || !output_open_) return;
  output_open_ = attempt_->read_output([this](int rank, bool /*is_stderr*/, std::string_view line) {
    // The trainer's events have come over the channel, too, and are shown in words.
    const bool is_event = parts_.plan.is_trainer && rank >= 0 && is_event_line(line);
    logs_->write(rank, line, is_event ? RankLogs::Reader::kProgram : RankLogs::Reader::kPerson);
    if (rank == 0 && !is_event) progress_.add_output(line);
    if (rank >= 0) return;
    launcher_lines_.emplace_back(line);
    if (launcher_lines_.size() > kLauncherLinesMax) launcher_lines_.pop_front();
  });
  logs_->flush();
  report_log_trouble();
  if (!output_open_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, attempt_->output_fd(), nullptr);
}

// Nothing of the attempt is left, so what it said is all there; it only has to be read.
void RunLoop::drain(int fd, const std::function<bool()>& more) {
  const Deadline deadline = Deadline::after(kDrainWait);
  while (more() && !deadline.expired()) {
    pollfd entry{fd, POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(deadline.remaining().count()));
  }
}

void RunLoop::take_exit() {
  if (!attempt_) return;
  const std::optional<ExitStatus> exit = attempt_->poll_exit();
  if (!exit) return;
  drain(attempt_->output_fd(), [this] {
    take_output();
    return output_open_;
  });
  drain(parts_.events.fd(), [this] {
    parts_.events.service([this](const EventServer::RankEvent& event) { take_rank_event(event); });
    return parts_.events.rank_connections() > 0;
  });
  flush_steps();
  const int generation = attempt_->generation();
  attempt_.reset();
  supervise::AttemptExited exited{generation, *exit, {launcher_lines_.begin(), launcher_lines_.end()}, false};
  if (checkpoints_before_) {
    exited.checkpoints_changed = stamp_directory(parts_.run.checkpoints()) != *checkpoints_before_;
  }
  feed(exited);
}

void RunLoop::take_signals() {
  signalfd_siginfo info{};
  while (::read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    const std::string signal = std::string("SIG") + ::sigabbrev_np(static_cast<int>(info.ssi_signo));
    const double now = steady_s();
    if (!stop_asked_s_) {
      stop_asked_s_ = now;
      feed(supervise::UserStop{signal});
    } else if (now - *stop_asked_s_ > kStopEcho_s) {
      parts_.console.notice("killing the ranks");
      feed(supervise::UserKill{signal});
    }
  }
}

// Once an interval, whatever wakes the loop: the directory may lie on a network file system.
void RunLoop::take_save_requests() {
  const double now = steady_s();
  if (!attempt_ || now < next_request_look_s_) return;
  next_request_look_s_ = now + kRequestInterval_s;
  if (!parts_.plan.is_trainer) {
    for (const std::string& id : save_requests_.refuse()) {
      write_journal({{"event", name::kSaveRequested},
                     {"request", id},
                     {"refused",
                      fmt::format("{} takes no requests; only muster-train does", parts_.plan.argv.front())}},
                    false);
    }
    return;
  }
  for (const std::string& id : save_requests_.pass_on(parts_.events, supervisor_.generation())) {
    write_journal({{"event", name::kSaveRequested}, {"request", id}, {"refused", nullptr}}, false);
  }
}

void RunLoop::tell_about_checkpoints(const json& event) {
  const std::string kind = text_field(event, "event");
  if (kind == name::kCheckpoint && checkpoint_trouble_told_) {
    checkpoint_trouble_told_ = false;
    parts_.console.notice("checkpoints are stored again: " + text_field(event, "path"));
  } else if (kind == name::kCheckpointFailed && !checkpoint_trouble_told_) {
    checkpoint_trouble_told_ = true;
    const char* consequence = event.contains("retry_seconds") ? "it is tried again" : "training goes on";
    parts_.console.problem(fmt::format("the checkpoint of step {} is not stored: {} ({})",
                                       integer_field(event, "step", -1), text_field(event, "reason"),
                                       consequence));
  } else if (kind == name::kCheckpointSlow) {
    parts_.console.problem(fmt::format("the checkpoint of step {} is still being written after {:.0f} s",
                                       integer_field(event, "step", -1), number_field(event, "seconds", 0)));
  } else if (kind == name::kCheckpointAdvice) {
    parts_.console.notice(text_field(event, "text"));
  }
  save_requests_.take_answer(event);
}

void RunLoop::run_timers() {
  const Clock::time_point now = Clock::now();
  for (auto it = timers_.begin(); it != timers_.end();) {
    if (it->second.first > now) {
      ++it;
      continue;
    }
    const supervise::TimerExpired expired{it->first, it->second.second};
    timers_.erase(it);
    feed(expired);
    it = timers_.begin();  // the actions may have changed the timers
  }
}

void RunLoop::renew_lease() {
  const double now = steady_s();
  if (now < next_renewal_s_) return;
  next_renewal_s_ = now + std::chrono::duration<double>(kLeaseRenewInterval).count();
  const Status renewed = parts_.lease.renew();
  if (renewed) {
    lease_renewed_s_ = now;
    return;
  }
  const bool expired = now - lease_renewed_s_ > std::chrono::duration<double>(kLeaseExpiry).count();
  if (renewed.error().code != ErrorCode::kAborted && !expired) return;
  parts_.console.problem(renewed.error().message);
  feed(supervise::LeaseLost{renewed.error().message});
}

void RunLoop::flush_steps() {
  if (auto waiting = steps_.take_waiting()) write_journal(std::move(*waiting), false);
}

void RunLoop::write_journal(json event, bool durable) {
  event["time"] = iso8601_utc(unix_time_s());
  parts_.console.event(event);
  const Status written = parts_.journal.append(std::move(event), durable);
  if (written || journal_trouble_told_) return;
  journal_trouble_told_ = true;
  parts_.console.problem(written.error().message + " (the run goes on; its journal has gaps)");
}

void RunLoop::report_log_trouble() {
  if (log_trouble_told_ || logs_->error().empty()) return;
  log_trouble_told_ = true;
  parts_.console.problem(logs_->error() + " (the run goes on; output is being lost)");
}

}  // namespace

StopSignals::StopSignals() {
  sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&set_, signal);
  ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  pipe_before_ = ::signal(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
  ::signal(SIGPIPE, pipe_before_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Result<RunLoopResult> run_supervised(const RunLoopParts& parts) { return RunLoop(parts).run(); }

}  // namespace muster
