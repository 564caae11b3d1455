// Preloaded into a server (LD_PRELOAD), shifts its wall clock by CLOCK_AHEAD_MS milliseconds, which may be negative.
// The monotonic clock is unchanged. Waits until a wall-clock time end at the real time, since the kernel does not know
// of the shift.
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/time.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>

namespace {

constexpr int64_t ns_of_second = 1'000'000'000, ns_of_ms = 1'000'000, ms_of_second = 1000;
// Times of the monotonic clock are below it, those of the wall clock above: years of uptime.
constexpr time_t wall_clock_from = 1'000'000'000;

int64_t ahead_ms() {
  static const int64_t ms = [] {
    const char* text = std::getenv("CLOCK_AHEAD_MS");
    return text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
  }();
  return ms;
}

timespec shifted(timespec time, int64_t ms) {
  const int64_t ns = time.tv_nsec + ms % ms_of_second * ns_of_ms;
  time.tv_sec += ms / ms_of_second + (ns >= ns_of_second ? 1 : 0) - (ns < 0 ? 1 : 0);
  time.tv_nsec = (ns + ns_of_second) % ns_of_second;
  return time;
}

timespec real_moment(const timespec& until) {
  return until.tv_sec < wall_clock_from ? until : shifted(until, -ahead_ms());
}

bool is_wall_clock(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

template <class Function>
Function* next(const char* name, const char* version = nullptr) {
  void* found = version == nullptr ? nullptr : dlvsym(RTLD_NEXT, name, version);
  return reinterpret_cast<Function*>(found == nullptr ? dlsym(RTLD_NEXT, name) : found);
}

// The C library has an older function of that name, with another layout.
constexpr const char* condition_version = "GLIBC_2.3.2";

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const real = next<int(clockid_t, timespec*)>("clock_gettime");
  const int rc = real(clock, time);
  if (rc == 0 && is_wall_clock(clock)) *time = shifted(*time, ahead_ms());
  return rc;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  const int rc = clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return rc;
}

time_t time(time_t* into) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (into != nullptr) *into = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(timespec* time, int base) noexcept {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  static auto* const real =
      next<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait", condition_version);
  const timespec moment = real_moment(*until);
  return real(condition, mutex, &moment);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  static auto* const real =
      next<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>("pthread_cond_clockwait");
  const timespec moment = is_wall_clock(clock) ? real_moment(*until) : *until;
  return real(condition, mutex, clock, &moment);
}

int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) noexcept {
  static auto* const real = next<int(pthread_mutex_t*, const timespec*)>("pthread_mutex_timedlock");
  const timespec moment = real_moment(*until);
  return real(mutex, &moment);
}

int sem_timedwait(sem_t* semaphore, const timespec* until) {
  static auto* const real = next<int(sem_t*, const timespec*)>("sem_timedwait");
  const timespec moment = real_moment(*until);
  return real(semaphore, &moment);
}

}  // extern "C"
