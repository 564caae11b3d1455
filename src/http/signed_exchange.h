// Verification of signed requests other than S3 requests.
#pragma once

#include "auth/auth.h"
#include "auth/auth_failures.h"
#include "auth/network_rules.h"
#include "http/server.h"

namespace verbena::http {

// The signer of `exchange`. access_denied for an unsigned request, slow_down after too many authentication failures of
// its client, else as Verifier::verify(), and access_denied for a signer who may not come from that network.
// `auth_failures` may be null: failures are then not counted; so may `networks`: there are no rules.
Result<auth::Verified> verify_signed(const auth::Verifier& verifier, const Exchange& exchange,
                                     auth::AuthFailures* auth_failures = nullptr,
                                     const auth::NetworkRules* networks = nullptr);

}  // namespace verbena::http
