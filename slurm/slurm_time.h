// Times as Slurm writes them: lengths ("1-12:30:00", "30", "UNLIMITED") and moments ("2026-11-30T12:00:00").
// Pure; safe from any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace muster::slurm {

// A job's time limit or elapsed time: a length, or one of the words that Slurm prints in its place.
struct TimeSpan {
  enum class Kind {
    kFinite,
    kUnlimited,       // UNLIMITED, INFINITE
    kPartitionLimit,  // Partition_Limit: whatever the partition allows
    kNotSet,          // NOT_SET
    kInvalid          // INVALID: Slurm itself does not know, a clock went backwards
  };
  Kind kind = Kind::kFinite;
  std::chrono::seconds length{0};  // kFinite only

  static TimeSpan finite(std::chrono::seconds length) { return {Kind::kFinite, length}; }
  bool operator==(const TimeSpan&) const = default;
};

// What parse_time_span takes, for error messages.
inline constexpr std::string_view kTimeSpanForms =
    "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, "
    "days-hours:minutes:seconds, UNLIMITED";

// A bare number counts minutes; only the first number may exceed its clock range. Words in any case.
// kInvalidArgument for other texts, and for more than 100 years.
Result<TimeSpan> parse_time_span(std::string_view text);

// D-HH:MM:SS, which every command of Slurm takes, or the word. parse_time_span() reads it back.
std::string format_time_span(const TimeSpan& span);

// A moment as squeue, sacct and scontrol print it. They print local time without its zone, so whoever runs
// them sets TZ=UTC and clears SLURM_TIME_FORMAT; then this is Unix time. None for Unknown, N/A, None and
// "(null)": it has not come yet. kInvalidArgument for other texts, and for days that no calendar has.
Result<std::optional<std::chrono::sys_seconds>> parse_moment(std::string_view text);

// 2026-11-30T12:00:00, or Unknown.
std::string format_moment(std::optional<std::chrono::sys_seconds> moment);

}  // namespace muster::slurm
