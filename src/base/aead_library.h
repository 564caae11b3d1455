// Who encrypts AES-256-GCM of base/aead.h here: OpenSSL, or ipsec-mb where OpenSSL leaves the processor's VAES unused
// and the build has ipsec-mb.
#pragma once

#include <string>

namespace verbena {

struct AesGcmLibrary {
  std::string name;         // "OpenSSL 3.0.19", "ipsec-mb 1.3.0"
  bool vector_aes = false;  // whether it uses VAES
};
// Of this process. What OPENSSL_ia32cap takes from OpenSSL is not there for the other one either.
AesGcmLibrary aes_gcm_library();

}  // namespace verbena
