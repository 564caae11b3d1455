// Health and metrics over HTTP. Called by server/.
#pragma once

#include <atomic>

#include "auth/auth.h"
#include "auth/auth_failures.h"
#include "auth/network_rules.h"
#include "http/server.h"

namespace verbena::admin {

// One for all listeners of a process; handlers may run on any core and must not outlive it.
class Pages {
 public:
  // Health is 503 once `stopping` is set. `auth_failures` counts authentication failures; null: not counted.
  // `networks`: from where callers may come; null: from everywhere.
  Pages(const auth::Verifier& verifier, const std::atomic<bool>& stopping, auth::AuthFailures* auth_failures = nullptr,
        const auth::NetworkRules* networks = nullptr)
      : verifier_(verifier), stopping_(stopping), auth_failures_(auth_failures), networks_(networks) {}
  Pages(const Pages&) = delete;

  // `signed_always` is for listeners that may be behind a proxy on this host.
  enum class Metrics { signed_elsewhere, signed_always, open };
  // GET /-/health (open) and GET /-/metrics (open to this machine, http/local_request.h; elsewhere signed by the
  // superuser, not by a limited session; or open). All else goes to `otherwise`, or is method_not_allowed if that is
  // empty.
  http::Handler handler(http::Handler otherwise = {}, Metrics metrics = Metrics::signed_elsewhere);

 private:
  Task<void> answer(const http::Handler& otherwise, Metrics metrics, http::Exchange& exchange);
  // True when the exchange was for one of the pages, and has been answered.
  Task<bool> serve(Metrics metrics, http::Exchange& exchange);
  Result<void> show_metrics(Metrics metrics, const http::Exchange& exchange, s3::Response& response) const;

  const auth::Verifier& verifier_;
  const std::atomic<bool>& stopping_;
  auth::AuthFailures* const auth_failures_;
  const auth::NetworkRules* const networks_;
};

}  // namespace verbena::admin
