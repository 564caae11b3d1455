#include "settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace verbena::compat {
namespace {

struct Setting {
  const char* name;
  const char* text;  // "NAME=value"
};
constexpr Setting settings[] = {
    // A cache of registrations would keep memory reachable after it was deregistered, and patch the program's munmap.
    {"FI_MR_CACHE_MAX_COUNT", "FI_MR_CACHE_MAX_COUNT=0"},
    {"FI_MR_CACHE_MONITOR", "FI_MR_CACHE_MONITOR=disabled"},
    // rxm's default needs longer queues than many devices have.
    {"FI_UNIVERSE_SIZE", "FI_UNIVERSE_SIZE=16"},
};

// The environment with our settings, while this lives. Other threads may be reading it: a new array takes the old one's
// place at once, the old one is untouched, and the new one is never freed, because a reader may still be in it.
class Settings {
 public:
  Settings() : before_(__atomic_load_n(&environ, __ATOMIC_ACQUIRE)) {
    size_t count = 0;
    while (before_ != nullptr && before_[count] != nullptr) ++count;
    during_ = static_cast<char**>(calloc(count + std::size(settings) + 1, sizeof(char*)));
    if (during_ == nullptr) return;
    std::copy_n(before_, count, during_);
    for (const Setting& setting : settings) {
      if (getenv(setting.name) == nullptr) during_[count++] = const_cast<char*>(setting.text);
    }
    __atomic_store_n(&environ, during_, __ATOMIC_RELEASE);
  }
  ~Settings() {
    if (during_ == nullptr) return;
    // If the program has changed its environment meanwhile, that change goes before.
    char** expected = during_;
    __atomic_compare_exchange_n(&environ, &expected, before_, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

 private:
  char** before_;
  char** during_ = nullptr;
};

}  // namespace

int get_info(const char* node, uint64_t flags, const fi_info* hints, fi_info** found) {
  static std::mutex mutex;
  static bool settled = false;
  const std::lock_guard lock(mutex);
  const auto ask = [&] { return fi_getinfo(FI_VERSION(1, 20), node, nullptr, flags, hints, found); };
  if (settled) return ask();
  const Settings during;
  settled = true;
  return ask();
}

}  // namespace verbena::compat
