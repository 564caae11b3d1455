// Signatures of requests that are no S3 requests.
#pragma once

#include "auth/auth.h"
#include "http/server.h"

namespace verbena::http {

// Who signed `exchange`. access_denied where nobody did, else as Verifier::verify().
Result<auth::Verified> verify_signed(const auth::Verifier& verifier, const Exchange& exchange);

}  // namespace verbena::http
