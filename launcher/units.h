// Durations and sizes as people and Slurm write them. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// What parse_duration takes, for error messages.
inline constexpr std::string_view kDurationForms =
    "90s, 30m, 2h, 1h30m, 500ms, or Slurm's 30:00, 1:30:00, 1-12:30:00";
inline constexpr std::string_view kMemoryForms = "512M, 64G (K, M, G or T, powers of 1024)";

// A sum of whole numbers with falling units (d, h, m, s, ms), or Slurm's minutes:seconds,
// hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds. A bare number is
// refused: Slurm would read minutes, most other tools seconds. Nothing for any other text or an overflow.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

// Bytes. A bare number is refused: Slurm would read megabytes.
std::optional<std::uint64_t> parse_memory(std::string_view text);

// The shortest form that parse_duration reads back: 1h30m, 500ms, 0s.
std::string format_duration(std::chrono::milliseconds duration);

// The largest unit that divides the bytes: 64G, 1536M. Bytes below 1K have no such form: 512B.
std::string format_memory(std::uint64_t bytes);

}  // namespace muster
