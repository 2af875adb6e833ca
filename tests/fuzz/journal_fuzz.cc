// Whatever a journal says, what became of the run can be told.
#include "common/journal.h"
#include "launcher/run_history.h"
#include "launcher/run_summary.h"
#include "tests/fuzz/fuzz_target.h"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto journal = parse_journal(fuzz::as_text(data, bytes), "journal.jsonl");
  if (!journal) return 0;
  for (const bool live : {false, true}) {
    RunReport report;
    report.summary = summarize(journal->events, live);
    static_cast<void>(report_to_json(report));
  }
  static_cast<void>(read_history(journal->events));
  return 0;
}
