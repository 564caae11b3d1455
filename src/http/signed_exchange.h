// Verification of signed requests other than S3 requests.
#pragma once

#include "auth/auth.h"
#include "auth/auth_failures.h"
#include "http/server.h"

namespace verbena::http {

// The signer of `exchange`. access_denied for an unsigned request, slow_down after too many authentication failures of
// its client, else as Verifier::verify(). `auth_failures` may be null: failures are then not counted.
Result<auth::Verified> verify_signed(const auth::Verifier& verifier, const Exchange& exchange,
                                     auth::AuthFailures* auth_failures = nullptr);

}  // namespace verbena::http
