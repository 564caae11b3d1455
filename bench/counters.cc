#include "counters.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbena::bench {
namespace {

thread_local bool counting = false;
thread_local Counts counts;

// Invalid system calls that mark the begin and end of counting for the tracer.
constexpr long mark_begin = 0x7e000001, mark_end = 0x7e000002;

void count_allocation(size_t bytes) {
  if (!counting) return;
  ++counts.allocations;
  counts.allocated_bytes += bytes;
}

void count_copy(size_t bytes) {
  if (!counting || bytes < copy_size_min) return;
  ++counts.copies;
  counts.copied_bytes += bytes;
}

using Copy = void* (*)(void*, const void*, size_t);

}  // namespace

void begin_counting() {
  counts = {};
  ::syscall(mark_begin);
  counting = true;
}

Counts end_counting() {
  counting = false;
  ::syscall(mark_end);
  return counts;
}

bool count_system_calls(int (*body)(void*), void* argument, SystemCalls& calls) {
  calls.fill(0);
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(125);
    ::raise(SIGSTOP);
    ::_exit(body(argument));
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return false;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  bool on = false, entering = true;
  long signal = 0;
  for (;;) {
    if (::ptrace(PTRACE_SYSCALL, child, nullptr, signal) != 0) return false;
    signal = 0;
    if (::waitpid(child, &status, __WALL) != child) return false;
    if (WIFEXITED(status)) return WEXITSTATUS(status) == 0;
    if (WIFSIGNALED(status)) return false;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
      signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
      continue;
    }
    if (entering) {
      user_regs_struct registers{};
      ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
      const auto number = static_cast<long>(registers.orig_rax);
      if (number == mark_begin) {
        on = true;
      } else if (number == mark_end) {
        on = false;
      } else if (on && number >= 0 && static_cast<size_t>(number) < calls.size()) {
        ++calls[static_cast<size_t>(number)];
      }
    }
    entering = !entering;
  }
}

const char* system_call_name(size_t number) {
  switch (number) {
    case SYS_epoll_wait:
      return "epoll_wait";
    case SYS_epoll_pwait:
      return "epoll_pwait";
    case SYS_epoll_ctl:
      return "epoll_ctl";
    case SYS_recvmsg:
      return "recvmsg";
    case SYS_recvfrom:
      return "recvfrom";
    case SYS_sendmsg:
      return "sendmsg";
    case SYS_sendto:
      return "sendto";
    case SYS_read:
      return "read";
    case SYS_write:
      return "write";
    case SYS_writev:
      return "writev";
    case SYS_futex:
      return "futex";
    case SYS_getrandom:
      return "getrandom";
    case SYS_clock_gettime:
      return "clock_gettime";
    case SYS_timerfd_settime:
      return "timerfd_settime";
    case SYS_setsockopt:
      return "setsockopt";
    case SYS_ioctl:
      return "ioctl";
    case SYS_madvise:
      return "madvise";
    case SYS_mmap:
      return "mmap";
    case SYS_munmap:
      return "munmap";
    case SYS_brk:
      return "brk";
    case SYS_sched_yield:
      return "sched_yield";
    default: {
      static thread_local char text[16];
      ::snprintf(text, sizeof text, "call %zu", number);
      return text;
    }
  }
}

}  // namespace verbena::bench

// glibc's own functions, under the names that it keeps for programs that replace the public ones.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t size) {
  verbena::bench::count_allocation(size);
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  verbena::bench::count_allocation(n * size);
  return __libc_calloc(n, size);
}
void* realloc(void* old, size_t size) {
  verbena::bench::count_allocation(size);
  return __libc_realloc(old, size);
}
void* memalign(size_t alignment, size_t size) {
  verbena::bench::count_allocation(size);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  *out = memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
void free(void* p) { __libc_free(p); }

// The machine's memmove serves both; until it is found (the loader copies, too) bytes are copied one by one.
static verbena::bench::Copy real_copy() {
  static verbena::bench::Copy found = nullptr;
  static bool looking = false;
  if (found == nullptr && !looking) {
    looking = true;
    found = reinterpret_cast<verbena::bench::Copy>(::dlsym(RTLD_NEXT, "memmove"));
    looking = false;
  }
  return found;
}

void* memmove(void* to, const void* from, size_t size) {
  verbena::bench::count_copy(size);
  if (const auto copy = real_copy()) return copy(to, from, size);
  auto* t = static_cast<volatile unsigned char*>(to);
  const auto* f = static_cast<const volatile unsigned char*>(from);
  if (t <= f) {
    for (size_t i = 0; i < size; ++i) t[i] = f[i];
  } else {
    for (size_t i = size; i-- > 0;) t[i] = f[i];
  }
  return to;
}
void* memcpy(void* __restrict to, const void* __restrict from, size_t size) { return memmove(to, from, size); }
}
