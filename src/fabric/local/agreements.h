// What both processes agree on by words in shared memory, besides the rings: who wakes whom, and when a window is not
// touched any more. In both, each side writes a word of its own, passes a full fence, and then reads the other's: so
// one of the two always sees the other. On one side only, or without the fences, both could miss each other.
#pragma once

#include <cstdint>

#include "fabric/local/platform.h"

namespace verbena::fabric::local {

// --- Sleeping and waking: "I am about to sleep: wake me after you have published" ------------------------------------

// The sleeper, before its last look for work. It sleeps only if it then finds none.
template <class Platform, class... Words>
void announce_sleep(Words&... words) {
  (words.store(1, std::memory_order_relaxed), ...);
  Platform::full_fence();
}
// The sleeper, once it is awake.
template <class... Words>
void is_awake(Words&... words) {
  (words.store(0, std::memory_order_relaxed), ...);
}
// The other side, after it has published. True: it must wake the sleeper.
template <class Platform, class Word>
bool must_wake(Word& word) {
  Platform::full_fence();
  return word.load(std::memory_order_relaxed) != 0 && word.exchange(0, std::memory_order_relaxed) != 0;
}

// --- Permits: the right to touch a lent window, revocable at any moment ----------------------------------------------

// The client. What it wrote to the window before is there for the server.
template <class Word>
void lend_window(Word& permit, uint64_t wanted) {
  permit.store(wanted, std::memory_order_release);
}
// The client: no use of the window begins after this. One that is in progress may still go on: see window_is_busy().
template <class Platform, class Word>
void withdraw_window(Word& permit) {
  permit.store(0, std::memory_order_relaxed);
  Platform::full_fence();
}
// The client, after withdraw_window(). False: what the server did with the window is over.
template <class Word>
bool window_is_busy(const Word& busy) {
  return busy.load(std::memory_order_acquire) != 0;
}

// The server: the window is lent as `wanted`, and may be used until end_use(), which follows in any case. `busy`
// counts: a device may still copy for one window when another window that had the same permit before is found
// withdrawn.
template <class Platform, class Permit, class Busy>
bool begin_use(Permit& permit, Busy& busy, uint64_t wanted) {
  busy.fetch_add(1, std::memory_order_relaxed);
  Platform::full_fence();
  return permit.load(std::memory_order_acquire) == wanted;
}
template <class Busy>
void end_use(Busy& busy) {
  busy.fetch_sub(1, std::memory_order_release);
}

// The server: calls `use` while the window is lent as `wanted`. False: it is not.
template <class Platform, class Permit, class Busy, class Use>
bool use_window(Permit& permit, Busy& busy, uint64_t wanted, Use use) {
  const bool permitted = begin_use<Platform>(permit, busy, wanted);
  if (permitted) use();
  end_use(busy);
  return permitted;
}

}  // namespace verbena::fabric::local
