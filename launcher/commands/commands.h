// The subcommands of `muster`: one file each. They return the process's exit code (common/run_contract.h) and
// print errors to standard error as "muster: …". Arguments come without the program and subcommand names.
#pragma once

#include <string>
#include <vector>

namespace muster::commands {

using Arguments = std::vector<std::string>;

int validate(const Arguments& arguments);
int plan(const Arguments& arguments);
int run(const Arguments& arguments);
int guard(const Arguments& arguments);  // hidden: started by `muster run`
int exec(const Arguments& arguments);
int list(const Arguments& arguments);
int status(const Arguments& arguments);
int logs(const Arguments& arguments);
int rm(const Arguments& arguments);
int site(const Arguments& arguments);
int checkpoint(const Arguments& arguments);
int checkpoint_now(const Arguments& arguments);  // `checkpoint now`, without these two words

}  // namespace muster::commands
