// Input of the verifier from an unauthenticated client: the first line is the Authorization header, the second the
// query, the third the path, the rest headers, one "name:value" a line. Nothing may verify: the key is random.
#include <cstdlib>
#include <string>
#include <vector>

#include "auth/auth.h"
#include "base/bytes.h"

namespace {

std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const auto line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

class FixedClock : public verbena::WallClock {
 public:
  int64_t now_us() const override { return 1369353600LL * 1'000'000; }
};

std::string random_secret() {
  std::string secret(32, '\0');
  verbena::fill_random({reinterpret_cast<std::byte*>(secret.data()), secret.size()});
  return verbena::to_hex(verbena::as_bytes(secret));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::auth;
  static const FixedClock clock;
  static const RootCredentials store({"AKIAIOSFODNN7EXAMPLE", random_secret(), ""});
  static const Verifier verifier(store, clock, {});

  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<HeaderView> headers;
  if (const auto authorization = next_line(text); !authorization.empty())
    headers.push_back({"authorization", authorization});
  const auto query = next_line(text);
  const auto path = next_line(text);
  while (!text.empty()) {
    const auto line = next_line(text);
    const size_t colon = std::min(line.find(':'), line.size());
    headers.push_back({line.substr(0, colon), line.substr(std::min(colon + 1, line.size()))});
  }
  const auto verified = verifier.verify({"GET", path, query, headers});
  if (verified && !verified->identity.anonymous) std::abort();
  if (const auto decoded = uri_decode(path); decoded && uri_decode(uri_encode(*decoded, true)) != decoded) std::abort();
  return 0;
}
