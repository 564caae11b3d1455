// Verification of signed requests other than S3 requests.
#pragma once

#include "auth/auth.h"
#include "auth/guesses.h"
#include "http/server.h"

namespace verbena::http {

// The signer of `exchange`. access_denied for an unsigned request, slow_down after too many authentication failures of
// its client, else as Verifier::verify(). `guesses` may be null: failures are then not counted.
Result<auth::Verified> verify_signed(const auth::Verifier& verifier, const Exchange& exchange,
                                     auth::Guesses* guesses = nullptr);

}  // namespace verbena::http
