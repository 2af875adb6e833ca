// LD_PRELOAD: a disk that is slow once in a process. The first fsync(2) of a file whose name ends in
// $SLOW_DISK_FILE takes $SLOW_DISK_SECONDS more.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is_slow_file(int fd) {
  const char *ending = getenv("SLOW_DISK_FILE");
  char link[64];
  char name[4096];
  if (ending == NULL) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, name, sizeof name - 1);
  if (length < (ssize_t)strlen(ending)) return 0;
  name[length] = '\0';
  return strcmp(name + length - strlen(ending), ending) == 0;
}

int fsync(int fd) {
  static atomic_flag was_slow = ATOMIC_FLAG_INIT;
  const char *seconds = getenv("SLOW_DISK_SECONDS");
  if (seconds != NULL && is_slow_file(fd) && !atomic_flag_test_and_set(&was_slow)) {
    struct timespec rest = {atol(seconds), 0};
    while (nanosleep(&rest, &rest) != 0) continue;
  }
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
