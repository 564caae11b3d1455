#include "client/forks.h"

#include <pthread.h>

#include <atomic>

namespace verbena::client {
namespace {

std::atomic<uint64_t> forks_seen{0};

}  // namespace

uint64_t forks() {
  // The handler runs in the child alone, and changes only this number.
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { forks_seen.fetch_add(1); });
  static_cast<void>(registered);
  return forks_seen.load(std::memory_order_relaxed);
}

}  // namespace verbena::client
