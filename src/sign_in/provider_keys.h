// The keys of identity providers: fetched at a sign-in, cached, and fetched again when they are old or a token names an
// unknown one. Whatever callers send, each provider is asked seldom, few are asked at once, and the number of waiting
// calls is bounded, too.
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

// A provider as registered by an account. Entries belong to one account: one account's choice of trusted certificates
// does not affect another's.
struct Issuer {
  std::string account, url;  // without https://
  std::string tag;           // differs for a later provider of the same name
  std::vector<std::string> thumbprints;
};

// Thread-safe.
class ProviderKeys {
 public:
  struct Limits {
    size_t issuers_max = 512;        // beyond it the least recently used is dropped
    size_t fetches_max = 4;          // at once
    size_t account_fetches_max = 1;  // of one account's providers
    size_t waiters_max = 2048;       // calls that wait for a fetch: each account has a fair share (base/fair_share.h)
    int64_t fresh_s = 900;           // until the next sign-in fetches again
    int64_t kept_s = 6 * 3600;       // how long keys are used while the provider does not answer
    int64_t rest_s = 30;             // between two fetches of one provider
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

  // Fetches the provider's keys, or waits for the fetch in progress; returns at once if the provider was asked a moment
  // ago. find() has the result. slow_down: too many fetches, or waiting calls.
  Task<Result<void>> refresh(Issuer issuer);

  // Aborts fetches, permanently.
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Reads the provider's configuration (OpenID Connect Discovery 1.0 section 4), which must name the issuer, and then the
// keys that it refers to.
Result<KeySet> fetch_keys(const Issuer& issuer, const HttpsRules& rules, const std::atomic<bool>& stop);

}  // namespace verbena::sign_in
