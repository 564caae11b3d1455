// Touching shared memory without dying of it. A page of a memfd can be gone when it is touched (the peer punched a hole
// and the machine refuses to back it again, the page was poisoned, ...): the kernel then sends SIGBUS to whoever
// touched it. Seals rule out the truncated file, not these. So the server touches shared memory inside
// survives_bus_error(), which turns the signal into `false`.
#pragma once

#include <setjmp.h>

namespace verbena::fabric::local {

// Installs the SIGBUS handler for the whole process, once; a signal outside a guard goes to the handler before it.
void install_bus_guard();

namespace detail {
// The mask would cost a system call, and the handler runs with SA_NODEFER, so it need not be restored. The thread
// sanitizer puts a handler of its own before ours, which blocks all signals.
#if defined(__SANITIZE_THREAD__)
inline constexpr int saves_signal_mask = 1;
#elif defined(__has_feature)
inline constexpr int saves_signal_mask = __has_feature(thread_sanitizer);
#else
inline constexpr int saves_signal_mask = 0;
#endif
[[gnu::tls_model("initial-exec")]] extern thread_local sigjmp_buf* bus_guard;
}  // namespace detail

// Runs `touch`; false when it met SIGBUS. The jump out of `touch` runs no destructors: it may only load, store and
// memcpy. It must not itself call survives_bus_error().
template <class Touch>
[[gnu::noinline]] bool survives_bus_error(const Touch& touch) {
  sigjmp_buf environment;
  if (sigsetjmp(environment, detail::saves_signal_mask) != 0) {
    detail::bus_guard = nullptr;
    return false;
  }
  detail::bus_guard = &environment;
  asm volatile("" ::: "memory");
  touch();
  asm volatile("" ::: "memory");
  detail::bus_guard = nullptr;
  return true;
}

}  // namespace verbena::fabric::local
