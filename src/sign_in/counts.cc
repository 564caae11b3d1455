#include "sign_in/counts.h"

#include <array>

namespace verbena::sign_in {

metrics::Counter& sign_ins_counter(By by, bool good) {
  static constexpr std::array names{"none", "web_identity", "ldap", "certificate"};
  static const auto counters = [] {
    std::array<std::array<metrics::Counter*, 2>, names.size()> made{};
    for (size_t i = 0; i < names.size(); ++i) {
      for (const bool ok : {false, true}) {
        made[i][ok ? 1 : 0] = &metrics::counter("verbena_sign_ins_total", "Sign-ins without a key",
                                                {{"by", names[i]}, {"result", ok ? "ok" : "refused"}});
      }
    }
    return made;
  }();
  return *counters[static_cast<size_t>(by)][good ? 1 : 0];
}

}  // namespace verbena::sign_in
