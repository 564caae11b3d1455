// Which ciphers of base/aead.h this machine has.
#pragma once

#include "base/aead.h"

namespace verbena {

// Whether OpenSSL has it here: a policy of the machine (FIPS) may forbid ChaCha20-Poly1305. fastest_aead() is one that
// it has.
bool aead_available(AeadKind kind);

}  // namespace verbena
