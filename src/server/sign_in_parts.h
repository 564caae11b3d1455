// What signing in without a key takes: who vouches for people and machines, and the threads that ask them.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "auth/identity_store.h"
#include "base/blocking.h"
#include "base/config.h"
#include "iam/service.h"
#include "sign_in/client_authority.h"
#include "sign_in/directory.h"
#include "sign_in/provider_keys.h"

namespace verbena::server {

// Null: nobody signs in that way. The pools go before whom their threads ask.
struct SignInParts {
  // `identities` is told whom the configuration trusts, and outlives this. The error names the key.
  static std::expected<SignInParts, std::string> open(const Config::SignIn& config, auth::IdentityStore& identities);
  std::optional<iam::SignInTools> tools() const;
  void begin_stop();  // what is under way ends early
  void stop();        // and has ended

  std::unique_ptr<sign_in::Directory> people;
  std::unique_ptr<sign_in::ClientAuthority> machines;
  std::unique_ptr<sign_in::ProviderKeys> provider_keys;
  // Apart: who waits for a provider's answer must not keep those from signing in whose keys are there.
  std::unique_ptr<BlockingPool> fetch_pool, people_pool, pool;
};

}  // namespace verbena::server
