// What the server reads of a native message: the frame, then the body of every request type.
#include <cstdlib>
#include <vector>

#include "native/wire/bodies.h"
#include "native/wire/message.h"

using namespace verbena;
using namespace verbena::native;

namespace {

// What decodes must encode to the same bytes again.
template <class T>
void expect_same(const T& decoded, Bytes body) {
  std::vector<std::byte> space(body.size());
  wire::Writer out(space);
  if (!encode(out, decoded)) std::abort();
  if (!std::equal(space.begin(), space.begin() + static_cast<std::ptrdiff_t>(out.size()), body.begin())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes message = std::as_bytes(std::span(data, size));
  // As a whole message, and, past the frame that a fuzzer cannot seal, as each body.
  if (const auto header = wire::parse_header(message, 16 * KiB)) {
    (void)wire::mac_matches({}, message);
    (void)wire::body_of(message);
  }
  if (const auto hello = wire::decode_hello(message)) expect_same(*hello, message);
  if (const auto get = wire::decode_get(message)) expect_same(*get, message);
  if (const auto put = wire::decode_put(message, true)) expect_same(*put, message);
  if (const auto put = wire::decode_put(message, false)) expect_same(*put, message);
  if (const auto del = wire::decode_delete(message)) expect_same(*del, message);
  if (const auto list = wire::decode_list(message)) expect_same(*list, message);
  return 0;
}
