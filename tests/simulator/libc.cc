// The calls of libc, of libstdc++ and of OpenSSL that are taken over: the program's own definitions come before those
// of the shared libraries, for the libraries among themselves, too. Before Scheduler::start() there is one thread, and
// time and randomness are the machine's.
#include <dlfcn.h>
#include <linux/futex.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <rocksdb/status.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <ctime>
#include <random>
#include <string>

#include "simulator/scheduler.h"

namespace {

using verbena::simulator::kernel;
using verbena::simulator::never;
using verbena::simulator::Scheduler;

Scheduler& world() { return Scheduler::get(); }

int64_t ns_of(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }
timespec time_of(int64_t ns) { return {ns / 1'000'000'000, ns % 1'000'000'000}; }
bool is_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }
// A time on that clock as one on the steady clock.
int64_t deadline(clockid_t clock, const timespec& at) {
  return ns_of(at) - (is_wall(clock) ? world().wall_offset_of_thread_ns() : 0);
}
long answer(long result) {
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}
void fill(void* into, size_t size) {
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t next = world().random();
    std::memcpy(static_cast<char*>(into) + at, &next, std::min<size_t>(8, size - at));
  }
}

// Fields of the C library's own structures, which no code but this reads.
bool take(pthread_mutex_t* mutex) {
  auto& data = mutex->__data;
  if (data.__lock != 0) {
    if ((data.__kind & 3) != PTHREAD_MUTEX_RECURSIVE || data.__owner != world().id()) return false;
    ++data.__count;
    return true;
  }
  data.__lock = 1;
  data.__owner = world().id();
  return true;
}
int lock_until(pthread_mutex_t* mutex, int64_t deadline_ns) {
  world().maybe_pause();
  while (!take(mutex)) {
    if (!world().wait(mutex, deadline_ns)) return ETIMEDOUT;
  }
  return 0;
}
void release(pthread_mutex_t* mutex) {
  auto& data = mutex->__data;
  if (data.__count != 0) {
    --data.__count;
    return;
  }
  data.__lock = data.__owner = 0;
  if (world().on()) world().wake(mutex, 1);
}
int wait_on(pthread_cond_t* condition, pthread_mutex_t* mutex, int64_t deadline_ns) {
  release(mutex);
  const bool woken = world().wait(condition, deadline_ns);
  lock_until(mutex, never);
  return woken ? 0 : ETIMEDOUT;
}

struct ReadWriteLock {
  int readers, writer;
};
ReadWriteLock& as_lock(pthread_rwlock_t* lock) { return *reinterpret_cast<ReadWriteLock*>(lock); }
bool take_shared(ReadWriteLock& lock) {
  if (lock.writer != 0) return false;
  ++lock.readers;
  return true;
}
bool take_alone(ReadWriteLock& lock) {
  if (lock.writer != 0 || lock.readers != 0) return false;
  lock.writer = 1;
  return true;
}

// A thread's destructors of thread-local objects still run in the world: the turn is given on behind them.
struct Begin {
  void* (*function)(void*);
  void* argument;
  void* thread;
};
pthread_key_t last_key;
void at_end(void* round) {
  if (round == reinterpret_cast<void*>(1)) {
    pthread_setspecific(last_key, reinterpret_cast<void*>(2));
  } else {
    world().end_thread();
  }
}
const int made_key = pthread_key_create(&last_key, at_end);
void* run_thread(void* of) {
  const Begin begin = *static_cast<Begin*>(of);
  world().adopt(begin.thread);
  delete static_cast<Begin*>(of);
  pthread_setspecific(last_key, reinterpret_cast<void*>(1));
  return begin.function(begin.argument);
}

long futex(uint32_t* word, int operation, uint32_t value, const timespec* time) {
  Scheduler& scheduler = world();
  const int command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
    scheduler.wake(word, value);
    scheduler.maybe_pause();
    return 0;
  }
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) return -EAGAIN;
  int64_t until_ns = never;
  if (time != nullptr && command == FUTEX_WAIT) until_ns = scheduler.steady_ns() + ns_of(*time);
  if (time != nullptr && command == FUTEX_WAIT_BITSET) {
    until_ns = deadline((operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC, *time);
  }
  return scheduler.wait(word, until_ns) ? 0 : -ETIMEDOUT;
}

}  // namespace

extern "C" {

int pthread_create(pthread_t* made, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) noexcept {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (!world().on()) return real(made, attributes, function, argument);
  void* const thread = world().register_thread();
  const int failed = real(made, attributes, run_thread, new Begin{function, argument, thread});
  if (failed == 0) world().name_thread(thread, *made);
  world().maybe_pause();
  return failed;
}
int pthread_join(pthread_t thread, void** result) {
  static const auto real = reinterpret_cast<decltype(&pthread_join)>(dlsym(RTLD_NEXT, "pthread_join"));
  if (world().on()) world().wait_for_end(thread);
  return real(thread, result);
}
int pthread_once(pthread_once_t* once, void (*function)()) {
  while (*once == 1) world().wait(once);
  if (*once == 2) return 0;
  *once = 1;
  try {
    function();
  } catch (...) {
    *once = 0;
    if (world().on()) world().wake(once);
    throw;
  }
  *once = 2;
  if (world().on()) world().wake(once);
  return 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept { return lock_until(mutex, never); }
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  world().maybe_pause();
  return take(mutex) ? 0 : EBUSY;
}
int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* at) noexcept {
  return lock_until(mutex, deadline(CLOCK_REALTIME, *at));
}
int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* at) noexcept {
  return lock_until(mutex, deadline(clock, *at));
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  release(mutex);
  world().maybe_pause();
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) { return wait_on(condition, mutex, never); }
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* at) {
  const bool steady = (condition->__data.__wrefs & 2) != 0;  // pthread_condattr_setclock()
  return wait_on(condition, mutex, deadline(steady ? CLOCK_MONOTONIC : CLOCK_REALTIME, *at));
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* at) {
  return wait_on(condition, mutex, deadline(clock, *at));
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (world().on()) world().wake(condition, 1);
  world().maybe_pause();
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (world().on()) world().wake(condition);
  world().maybe_pause();
  return 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  world().maybe_pause();
  while (!take_shared(as_lock(lock))) world().wait(lock);
  return 0;
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  world().maybe_pause();
  while (!take_alone(as_lock(lock))) world().wait(lock);
  return 0;
}
int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) noexcept { return take_shared(as_lock(lock)) ? 0 : EBUSY; }
int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) noexcept { return take_alone(as_lock(lock)) ? 0 : EBUSY; }
int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  ReadWriteLock& of = as_lock(lock);
  if (of.writer != 0) {
    of.writer = 0;
  } else {
    --of.readers;
  }
  if (world().on()) world().wake(lock);
  world().maybe_pause();
  return 0;
}

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& one : a) one = va_arg(list, long);
  va_end(list);
  if (world().on() && number == SYS_futex) {
    return answer(futex(reinterpret_cast<uint32_t*>(a[0]), static_cast<int>(a[1]), static_cast<uint32_t>(a[2]),
                        reinterpret_cast<const timespec*>(a[3])));
  }
  if (world().on() && number == SYS_getrandom) {
    fill(reinterpret_cast<void*>(a[0]), static_cast<size_t>(a[1]));
    return a[1];
  }
  return answer(kernel(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}
int sched_yield() noexcept {
  world().pause();
  return 0;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (!world().on()) return static_cast<int>(answer(kernel(SYS_clock_gettime, clock, reinterpret_cast<long>(time))));
  *time = time_of(is_wall(clock) ? world().wall_of_thread_ns() : world().steady_ns());
  return 0;
}
int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  *time = {precise.tv_sec, precise.tv_nsec / 1000};
  return 0;
}
time_t time(time_t* into) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  if (into != nullptr) *into = precise.tv_sec;
  return precise.tv_sec;
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* /*left*/) {
  world().sleep_until((flags & TIMER_ABSTIME) != 0 ? deadline(clock, *time) : world().steady_ns() + ns_of(*time));
  return 0;
}
int nanosleep(const timespec* time, timespec* left) { return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left); }
int usleep(useconds_t us) {
  world().sleep_until(world().steady_ns() + int64_t{us} * 1000);
  return 0;
}

// Asio then takes the time to wait from its queue of timers.
int timerfd_create(clockid_t /*clock*/, int /*flags*/) noexcept {
  errno = EMFILE;
  return -1;
}
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  const long result = kernel(SYS_epoll_ctl, epoll, operation, fd, reinterpret_cast<long>(event));
  if (world().on()) world().wake_poller(epoll);
  return static_cast<int>(answer(result));
}
int epoll_wait(int epoll, epoll_event* events, int events_max, int timeout_ms) {
  const int64_t until_ns = timeout_ms < 0 ? never : world().steady_ns() + int64_t{timeout_ms} * 1'000'000;
  for (bool more = timeout_ms != 0;;) {
    const long ready = kernel(SYS_epoll_wait, epoll, reinterpret_cast<long>(events), events_max, 0);
    if (ready != 0 || !more) return static_cast<int>(answer(ready));
    more = world().wait_as_poller(epoll, until_ns);
  }
}

ssize_t getrandom(void* into, size_t size, unsigned /*flags*/) {
  fill(into, size);
  return static_cast<ssize_t>(size);
}
int getentropy(void* into, size_t size) {
  fill(into, size);
  return 0;
}
int RAND_bytes(unsigned char* into, int size) {
  fill(into, static_cast<size_t>(size));
  return 1;
}

}  // extern "C"

unsigned std::random_device::_M_getval() { return static_cast<unsigned>(world().random()); }

// RocksDB's: it would read /proc/sys/kernel/random/uuid.
namespace rocksdb::port {
bool GenerateRfcUuid(std::string* /*into*/);
bool GenerateRfcUuid(std::string* /*into*/) { return false; }
}  // namespace rocksdb::port

// DBImpl::WriteOptionsFile(): a tenth of all instructions of a world, for a file that is not read.
rocksdb::Status write_no_options(void* database, bool locks, bool waits) asm("_ZN7rocksdb6DBImpl16WriteOptionsFileEbb");
rocksdb::Status write_no_options(void* /*database*/, bool /*locks*/, bool /*waits*/) { return rocksdb::Status::OK(); }
