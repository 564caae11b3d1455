// Access to mapped memory that survives missing pages. A page of a memfd can be missing when it is touched (the peer
// punched a hole and the machine cannot back it again), and a line of persistent memory can be poisoned: the kernel
// then sends SIGBUS to the touching thread. So the server touches such memory inside survives_bus_error(), which turns
// the signal into `false`.
#pragma once

#include <setjmp.h>

namespace verbena {

// Installs the SIGBUS handler for the whole process, once; a signal outside a guard is passed to the previous handler.
void install_bus_guard();

namespace detail {
// Saving the mask would cost a system call, and the handler runs with SA_NODEFER, so it need not be restored. The
// thread sanitizer installs a handler before ours, which blocks all signals.
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

}  // namespace verbena
