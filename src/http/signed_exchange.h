// Signatures of requests that are no S3 requests.
#pragma once

#include "auth/auth.h"
#include "auth/guesses.h"
#include "http/server.h"

namespace verbena::http {

// Who signed `exchange`. access_denied where nobody did, slow_down where its client guesses, else as
// Verifier::verify(). `guesses` may be null: then nothing is counted.
Result<auth::Verified> verify_signed(const auth::Verifier& verifier, const Exchange& exchange,
                                     auth::Guesses* guesses = nullptr);

}  // namespace verbena::http
