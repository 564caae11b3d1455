// The file of accounts, and the contents of a sealed session token. The first byte selects which. Accepted input is
// written as it was read; a token that was not sealed here never opens.
#include <cstdlib>

#include "auth/bucket_token.h"
#include "auth/identity_file.h"
#include "auth/session_token.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::auth;
  static const auto keys = KeyRing::in_memory();
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    const auto accounts = decode_accounts(text, *keys);
    if (!accounts) return 0;
    const std::string written = encode_accounts(*accounts);
    const auto again = decode_accounts(written, *keys);
    if (!again || encode_accounts(*again) != written) std::abort();
  } else if (data[0] % 3 == 1) {
    const auto contents = decode_session(text);
    if (contents && decode_session(encode_session(*contents)) != contents) std::abort();
  } else if (open_session(*keys, text) || open_bucket_token(*keys, text)) {
    std::abort();
  }
  return 0;
}
