#include "trainer/comm/mpi_transport.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace muster::comm {
namespace {

// Which MPI tag a message has: part of its collective's number, part of its own, and whether it is a header.
// So the messages of concurrent collectives, and of one collective, find their receivers in any order.
class TagLayout {
 public:
  enum class Part : unsigned { kHeader = 0, kPayload = 1 };

  // tag_max: the largest tag, at least 32767.
  explicit TagLayout(int tag_max) {
    const int bits = std::bit_width(static_cast<unsigned>(tag_max) + 1u) - 1;
    chunk_bits_ = (bits - 1) / 2;
    sequence_bits_ = bits - 1 - chunk_bits_;
  }

  int tag(const MessageHeader& header, Part part) const {
    const auto sequence = static_cast<unsigned>(header.sequence & ((1u << sequence_bits_) - 1u));
    const unsigned chunk = header.chunk & ((1u << chunk_bits_) - 1u);
    return static_cast<int>((((sequence << chunk_bits_) | chunk) << 1u) | static_cast<unsigned>(part));
  }

 private:
  int chunk_bits_;
  int sequence_bits_;
};

// What a transfer and MPI share. On the heap, so that it can be left to MPI if the transfer is given up.
struct Exchange {
  MPI_Comm comm;
  int peer;
  int header_tag;
  int payload_tag;
  std::size_t piece_bytes;
  MessageHeader header;  // sent, or received
  MPI_Request header_request = MPI_REQUEST_NULL;
  MPI_Request payload_request = MPI_REQUEST_NULL;  // of the current piece
  std::size_t posted_bytes = 0;                    // of the payload

  bool is_active() const { return header_request != MPI_REQUEST_NULL || payload_request != MPI_REQUEST_NULL; }
  std::size_t next_piece() const {
    return std::min<std::size_t>(piece_bytes, header.payload_bytes - posted_bytes);
  }
};

Result<bool> is_done(MPI_Request& request) {
  int done = 0;
  MUSTER_TRY(check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
  return done != 0;
}

class MpiSend : public Transfer {
 public:
  MpiSend(std::unique_ptr<Exchange> exchange, std::span<const std::byte> payload)
      : exchange_(std::move(exchange)), payload_(payload) {}
  ~MpiSend() override {
    // MPI may still read the header, so it is never freed.
    if (exchange_->is_active()) (void)exchange_.release();
  }

  Status post() {
    Exchange& x = *exchange_;
    MUSTER_TRY(check_mpi(
        MPI_Isend(&x.header, sizeof(x.header), MPI_BYTE, x.peer, x.header_tag, x.comm, &x.header_request),
        "MPI_Isend"));
    return post_piece();
  }

  Result<bool> test() override {
    for (;;) {
      MUSTER_ASSIGN(const bool header_done, is_done(exchange_->header_request));
      MUSTER_ASSIGN(const bool piece_done, is_done(exchange_->payload_request));
      if (!header_done || !piece_done) return false;
      if (exchange_->posted_bytes == payload_.size()) return true;
      MUSTER_TRY(post_piece());
    }
  }

 private:
  Status post_piece() {
    Exchange& x = *exchange_;
    const std::size_t bytes = x.next_piece();
    if (bytes == 0) return {};
    MUSTER_TRY(check_mpi(MPI_Isend(payload_.data() + x.posted_bytes, static_cast<int>(bytes), MPI_BYTE,
                                   x.peer, x.payload_tag, x.comm, &x.payload_request),
                         "MPI_Isend"));
    x.posted_bytes += bytes;
    return {};
  }

  std::unique_ptr<Exchange> exchange_;
  std::span<const std::byte> payload_;
};

class MpiReceive : public Transfer {
 public:
  MpiReceive(std::unique_ptr<Exchange> exchange, int self, const MessageHeader& expected,
             std::span<std::byte> payload)
      : exchange_(std::move(exchange)), self_(self), expected_(expected), payload_(payload) {}
  ~MpiReceive() override {
    if (!exchange_->is_active()) return;
    // Take back what has met no message yet; MPI may still write what has, so the header is never freed.
    for (MPI_Request* request : {&exchange_->header_request, &exchange_->payload_request}) {
      if (*request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(request);
      MPI_Request_free(request);
    }
    (void)exchange_.release();
  }

  Status post() {
    Exchange& x = *exchange_;
    return check_mpi(
        MPI_Irecv(&x.header, sizeof(x.header), MPI_BYTE, x.peer, x.header_tag, x.comm, &x.header_request),
        "MPI_Irecv");
  }

  Result<bool> test() override {
    if (!header_checked_) {
      MUSTER_ASSIGN(const bool header_done, is_done(exchange_->header_request));
      if (!header_done) return false;
      MUSTER_TRY(check_header(expected_, exchange_->header, self_, exchange_->peer));
      header_checked_ = true;
      MUSTER_TRY(post_piece());
    }
    for (;;) {
      MUSTER_ASSIGN(const bool piece_done, is_done(exchange_->payload_request));
      if (!piece_done) return false;
      if (exchange_->posted_bytes == payload_.size()) return true;
      MUSTER_TRY(post_piece());
    }
  }

 private:
  Status post_piece() {
    Exchange& x = *exchange_;
    const std::size_t bytes = x.next_piece();
    if (bytes == 0) return {};
    MUSTER_TRY(check_mpi(MPI_Irecv(payload_.data() + x.posted_bytes, static_cast<int>(bytes), MPI_BYTE,
                                   x.peer, x.payload_tag, x.comm, &x.payload_request),
                         "MPI_Irecv"));
    x.posted_bytes += bytes;
    return {};
  }

  std::unique_ptr<Exchange> exchange_;
  int self_;
  MessageHeader expected_;
  std::span<std::byte> payload_;
  bool header_checked_ = false;
};

class MpiTransport : public Transport {
 public:
  MpiTransport(MpiComm comm, int rank, int size, TagLayout tags, std::size_t piece_bytes)
      : comm_(std::move(comm)),
        handle_(comm_.get()),
        rank_(rank),
        size_(size),
        tags_(tags),
        piece_bytes_(piece_bytes) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return "mpi"; }
  void abandon() override { comm_.abandon(); }

  Result<std::unique_ptr<Transfer>> post_send(int destination, const MessageHeader& header,
                                              std::span<const std::byte> payload) override {
    auto transfer = std::make_unique<MpiSend>(make_exchange(destination, header), payload);
    MUSTER_TRY(transfer->post());
    return transfer;
  }
  Result<std::unique_ptr<Transfer>> post_receive(int source, const MessageHeader& expected,
                                                 std::span<std::byte> payload) override {
    auto transfer = std::make_unique<MpiReceive>(make_exchange(source, expected), rank_, expected, payload);
    MUSTER_TRY(transfer->post());
    return transfer;
  }

 private:
  std::unique_ptr<Exchange> make_exchange(int peer, const MessageHeader& header) const {
    return std::make_unique<Exchange>(Exchange{handle_, peer, tags_.tag(header, TagLayout::Part::kHeader),
                                               tags_.tag(header, TagLayout::Part::kPayload), piece_bytes_,
                                               header});
  }

  MpiComm comm_;
  MPI_Comm handle_;
  int rank_;
  int size_;
  TagLayout tags_;
  std::size_t piece_bytes_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_mpi_transport(MpiComm comm, std::size_t piece_bytes) {
  int rank = 0;
  int size = 0;
  MUSTER_TRY(check_mpi(MPI_Comm_rank(comm.get(), &rank), "MPI_Comm_rank"));
  MUSTER_TRY(check_mpi(MPI_Comm_size(comm.get(), &size), "MPI_Comm_size"));
  void* value = nullptr;
  int found = 0;
  MUSTER_TRY(check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found), "MPI_Comm_get_attr"));
  const int tag_max = found != 0 ? *static_cast<int*>(value) : 32767;
  return std::make_unique<MpiTransport>(std::move(comm), rank, size, TagLayout(tag_max), piece_bytes);
}

}  // namespace muster::comm
