// The keys of identity providers: fetched when somebody signs in by one, kept, and fetched again when they are old or a
// token names one that is not there. Whatever strangers send, a provider is asked seldom, few are asked at once, and of
// those waiting for an answer there are few, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/blocking.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "sign_in/https_get.h"
#include "sign_in/jwk.h"

namespace verbena::sign_in {

// A provider as an account has registered it. Whose it is belongs to it: one account's idea of which certificates to
// trust is nothing to another's.
struct Issuer {
  std::string account, url;  // without https://
  std::string tag;           // tells it from another one that is made under its name later
  std::vector<std::string> thumbprints;
};

// Thread-safe.
class ProviderKeys {
 public:
  struct Limits {
    size_t issuers_max = 512;        // that are kept; beyond it the one goes that was asked for longest ago
    size_t fetches_max = 4;          // at once
    size_t account_fetches_max = 1;  // of one account's providers
    size_t waiters_max = 1024;       // calls that wait for a fetch
    int64_t fresh_s = 900;           // from a fetch until the next sign-in asks again
    int64_t kept_s = 6 * 3600;       // for as long they serve while the provider does not answer
    int64_t rest_s = 30;             // between two fetches of a provider's
    int64_t failed_rest_s = 5;       // after a failure; doubled with each one, up to a minute
  };
  // Blocks, until `stop` is set or its own deadline.
  using Fetch = std::function<Result<KeySet>(const Issuer& issuer, const std::atomic<bool>& stop)>;

  // `pool` runs the fetches. It and `clock` outlive this.
  ProviderKeys(BlockingPool& pool, const WallClock& clock, Fetch fetch, Limits limits);
  ProviderKeys(BlockingPool& pool, const WallClock& clock, Fetch fetch)
      : ProviderKeys(pool, clock, std::move(fetch), Limits()) {}
  ~ProviderKeys();

  struct Known {
    std::shared_ptr<const KeySet> keys;  // null: none
    bool fresh = false;
  };
  Known find(const Issuer& issuer);

  // Fetches the provider's keys, or waits for the fetch that is under way; returns at once where the provider was asked
  // a moment ago. What came of it, find() tells. slow_down: too many are asked, or wait.
  Task<Result<void>> refresh(Issuer issuer);

  // Ends fetches early, for good.
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Reads the provider's configuration (OpenID Connect Discovery 1.0 section 4), which must be the issuer's, and then the
// keys that it names.
Result<KeySet> fetch_keys(const Issuer& issuer, const HttpsRules& rules, const std::atomic<bool>& stop);

}  // namespace verbena::sign_in
