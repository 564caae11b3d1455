// The parts for signing in without a key: authenticators of people and machines, and the threads that call them.
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

// Null: that kind is disabled. The pools are destroyed before the objects that their threads use.
struct SignInParts {
  // `identities` receives the configuration's trusted authenticators, and outlives this. The error names the key.
  static std::expected<SignInParts, std::string> open(const Config::SignIn& config, auth::IdentityStore& identities);
  std::optional<iam::SignInTools> tools() const;
  void begin_stop();  // aborts calls in progress
  void stop();        // waits for their end

  std::unique_ptr<sign_in::Directory> people;
  std::unique_ptr<sign_in::ClientAuthority> machines;
  std::unique_ptr<sign_in::ProviderKeys> provider_keys;
  // Separate: callers that wait for a provider must not block those whose keys are cached.
  std::unique_ptr<BlockingPool> fetch_pool, people_pool, pool;
};

}  // namespace verbena::server
