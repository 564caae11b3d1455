#include "simulator/watchdog.h"

#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>

#include "simulator/scheduler.h"

namespace verbena::simulator {
namespace {

constexpr unsigned seconds_to_tell = 5, seconds_between = 20;
constexpr int looks_without_work = 3;
constexpr int64_t ms_of_work = 5;
uint64_t seed_of_world = 0;
int64_t ms_max = 0;

void tell(const char* text, int size) { kernel(SYS_write, STDOUT_FILENO, reinterpret_cast<long>(text), size); }

// On the thread that does not give its turn on.
void tell_place(int /*signal*/) {
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDOUT_FILENO);
  kernel(SYS_exit_group, hung);
}

int64_t worked_ms() {
  timespec time{};
  kernel(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, reinterpret_cast<long>(&time));
  return time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
}

bool hangs() {
  static int64_t last_ms = 0;
  static uint64_t last_switches = 0;
  static int looks = 0;
  const int64_t now_ms = worked_ms();
  const uint64_t switches = Scheduler::get().switches();
  const bool rests = now_ms - last_ms < ms_of_work && switches == last_switches;
  looks = rests ? looks + 1 : 0;
  last_ms = now_ms;
  last_switches = switches;
  return now_ms > ms_max || looks == looks_without_work;
}

// On any thread; once it hangs the second time means that the other one did not come.
void look(int /*signal*/) {
  static bool told = false;
  if (told) kernel(SYS_exit_group, hung);
  if (!hangs()) {
    alarm(seconds_between);
    return;
  }
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
  ms_max = int64_t{seconds} * 1000;
  std::signal(SIGALRM, look);
  std::signal(SIGUSR2, tell_place);
  alarm(seconds_between);
}

}  // namespace verbena::simulator
