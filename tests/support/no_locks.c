// LD_PRELOAD: a file system without locks. flock(2) and fcntl(2) locks fail, as on an NFS mount whose server
// runs no lock daemon.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

int flock(int fd, int operation) {
  (void)fd;
  (void)operation;
  errno = ENOLCK;
  return -1;
}

typedef int (*fcntl_function)(int, int, ...);

static int fcntl_without_locks(const char *name, int fd, int command, void *argument) {
  switch (command) {
    case F_SETLK:
    case F_SETLKW:
    case F_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
    case F_OFD_GETLK:
      errno = ENOLCK;
      return -1;
    default:
      return ((fcntl_function)dlsym(RTLD_NEXT, name))(fd, command, argument);
  }
}

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  return fcntl_without_locks("fcntl", fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  return fcntl_without_locks("fcntl64", fd, command, argument);
}
