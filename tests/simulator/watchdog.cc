#include "simulator/watchdog.h"

#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "simulator/scheduler.h"

namespace verbena::simulator {
namespace {

constexpr unsigned seconds_to_tell = 5;
uint64_t seed_of_world = 0;

void tell(const char* text, int size) { kernel(SYS_write, STDOUT_FILENO, reinterpret_cast<long>(text), size); }

// On the thread that does not give its turn on.
void tell_place(int /*signal*/) {
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDOUT_FILENO);
  kernel(SYS_exit_group, hung);
}

// On any thread; the second time, the other one did not come.
void tell_threads(int /*signal*/) {
  static bool told = false;
  if (told) kernel(SYS_exit_group, hung);
  told = true;
  char line[160];
  tell(line, std::snprintf(line, sizeof line, "seed %lu: hangs\n", seed_of_world));
  const int running = Scheduler::get().tell_threads(tell);
  alarm(seconds_to_tell);
  kernel(SYS_tgkill, getpid(), running, SIGUSR2);
}

}  // namespace

void begin_watchdog(uint64_t seed, unsigned seconds) {
  seed_of_world = seed;
  void* frame[1];
  backtrace(frame, 1);  // the first one loads a library
  std::signal(SIGALRM, tell_threads);
  std::signal(SIGUSR2, tell_place);
  alarm(seconds);
}

}  // namespace verbena::simulator
