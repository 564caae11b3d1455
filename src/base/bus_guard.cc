#include "base/bus_guard.h"

#include <signal.h>

#include <mutex>

namespace verbena {

namespace detail {
thread_local sigjmp_buf* bus_guard = nullptr;
}

namespace {

struct sigaction previous_action;

void on_bus_error(int signal, siginfo_t* info, void* context) {
  if (detail::bus_guard != nullptr) siglongjmp(*detail::bus_guard, 1);
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    // Restore the default and return: the instruction faults again, and the process ends with the right status.
    ::signal(SIGBUS, SIG_DFL);
  }
}

}  // namespace

void install_bus_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &previous_action);
  });
}

}  // namespace verbena
