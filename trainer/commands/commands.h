// What muster-train does besides training, by the first word of its command line.
#pragma once

namespace muster::commands {

// muster-train eval CHECKPOINT [--data-path DIR] [--json]
// Loss and accuracy of a checkpoint on the test data, alone or under mpirun; the configuration is the one
// stored in the checkpoint, and the numbers are the same on any number of ranks. Returns the exit code.
int evaluate(int argc, const char* const* argv);

// muster-train export CHECKPOINT OUT.h5|OUT.safetensors [--force]
// A checkpoint's parameters as one plain file. Needs no MPI. Returns the exit code.
int export_parameters(int argc, const char* const* argv);

}  // namespace muster::commands
