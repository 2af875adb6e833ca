// Asking a live run for a checkpoint: a file a request in <run>/requests, which any host that shares the file
// system can write. The run's supervisor looks there, passes each request on to rank 0's program, once an
// attempt, and removes it when the journal says what became of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/event_server.h"
#include "launcher/run_directory.h"

namespace muster {

// The requester's side. Returns the request's id, which the journal's events name.
Result<std::string> ask_for_save(const RunDirectory& run);
void withdraw_request(const RunDirectory& run, const std::string& id);

// The supervisor's side. One thread; nothing waits for anything but the file system.
class SaveRequests {
 public:
  explicit SaveRequests(const RunDirectory& run) : run_(run) {}

  // Those whose requesters asked an earlier supervisor: they are gone.
  void drop_all();
  // Passes on what is new to this attempt. Returns the ids that were passed on for the first time.
  std::vector<std::string> pass_on(EventServer& events, int generation);
  // What cannot be passed on, as the program takes no requests: all that are there, which are removed.
  std::vector<std::string> refuse();
  // An event that names requests: they are answered.
  void take_answer(const nlohmann::json& event);

 private:
  const RunDirectory& run_;
  std::map<std::string, int> passed_on_;  // to which attempt
};

}  // namespace muster
