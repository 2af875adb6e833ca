// SEAM: non-blocking messages between two ranks, with explicit progress.
//
// A message is a header and a payload (possibly empty). The receiver says which header it expects: messages
// are matched by (source, sequence, chunk), and one whose header differs otherwise is an error, not data.
// Nothing here waits, retries or judges peers: that is the business of the operation that uses it.
// Threads: a transport and its transfers belong to one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/status.h"
#include "trainer/comm/message.h"

namespace muster::comm {

// One message under way. Its payload must stay in place until test() said true. Destroying an unfinished
// transfer gives it up: legal only when the communicator is broken, see Transport.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Makes progress; true once the payload may be reused (send) or read (receive). After an error or true it
  // must not be called again. kMismatch: the header was not the expected one. kIo: the network failed.
  virtual Result<bool> test() = 0;
};

// Messages given up while under way may still be written to by the network if the same process goes on to
// drive other transports: after a failure leave, and keep the buffers until then.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view name() const = 0;  // "mpi", "threads"

  // The group has failed: from now on touch the network no more than memory safety asks for.
  virtual void abandon() = 0;

  virtual Result<std::unique_ptr<Transfer>> post_send(int destination, const MessageHeader& header,
                                                      std::span<const std::byte> payload) = 0;
  virtual Result<std::unique_ptr<Transfer>> post_receive(int source, const MessageHeader& expected,
                                                         std::span<std::byte> payload) = 0;
};

}  // namespace muster::comm
