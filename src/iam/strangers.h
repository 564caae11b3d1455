// Calls that nobody signed: of somebody who has no key here, and whom an identity provider vouches for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "auth/identity_store.h"
#include "base/clock.h"
#include "s3/request.h"
#include "sign_in/claims.h"
#include "sign_in/provider_keys.h"

namespace verbena::iam {

// Who signed in: for the log. Null: nobody did.
struct SignedIn {
  auth::PrincipalPtr principal;
  std::string access_key;
};

struct StrangerReply {
  SignedIn who;
  // Set instead of an answer: this provider's keys are needed first. Then the call is to be answered once more.
  std::optional<sign_in::Issuer> wanted{};
};

struct StrangerTools {
  auth::IdentityStore& store;
  const WallClock& clock;
  sign_in::ProviderKeys& keys;
};

// Serves one form; takes a millisecond or two at most. `last`: answer by what keys there are.
void answer_stranger(const StrangerTools& tools, const s3::Caller& caller, std::string_view form, bool last,
                     s3::Response& response, StrangerReply& reply);

// A refusal as STS words it.
void write_refusal(const sign_in::Refusal& refusal, std::string_view request_id, s3::Response& response);

}  // namespace verbena::iam
