// A real child process for tests of what holds between processes: it runs `body`, then ends with the code
// that body returned, without destructors or atexit handlers (as a killed process would). Killed and reaped
// when the test lets go of it.
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

namespace muster::testing {

class ForkedProcess {
 public:
  // A ForkedProcess cannot be called, so it is never taken for a body.
  template <class Body>
  // NOLINTNEXTLINE(bugprone-forwarding-reference-overload)
  explicit ForkedProcess(Body&& body) : pid_(::fork()) {
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) ::_exit(std::forward<Body>(body)());
  }
  ForkedProcess(ForkedProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ForkedProcess& operator=(ForkedProcess&&) = delete;
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;
  ~ForkedProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }

  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }
  // False while it runs.
  bool wait_if_ended(int& status) {
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
  }
  // The status of waitpid(2).
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_;
};

// A pipe whose ends close with it.
class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_) != 0) throw std::runtime_error("pipe failed");
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void put(char byte) const {
    if (::write(ends_[1], &byte, 1) != 1) throw std::runtime_error("write to a pipe failed");
  }
  // '\0' at end of file.
  char take() const {
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1 ? byte : '\0';
  }
  void close_read() { close_end(0); }
  void close_write() { close_end(1); }

 private:
  void close_end(int end) {
    if (ends_[end] >= 0) ::close(std::exchange(ends_[end], -1));
  }
  int ends_[2] = {-1, -1};
};

}  // namespace muster::testing
