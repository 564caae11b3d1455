// The engine's index records, from any bytes: each decoder either returns malformed or a record that survives being
// encoded and decoded again.
#include <cstdlib>

#include "store/local/keys.h"
#include "store/local/record.h"

namespace {

using namespace verbena::store;

template <class Decode>
void round_trip(std::string_view bytes, Decode decode) {
  auto record = decode(bytes);
  if (!record) return;
  std::string again = encode(*record);
  auto second = decode(again);
  if (!second || encode(*second) != again) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 9) {
    case 0:
      round_trip(bytes, decode_object);
      break;
    case 1:
      round_trip(bytes, decode_parts);
      break;
    case 2:
      round_trip(bytes, decode_part);
      break;
    case 3:
      round_trip(bytes, decode_upload);
      break;
    case 4:
      round_trip(bytes, decode_bucket);
      break;
    case 5:
      round_trip(bytes, local::decode_segment);
      break;
    case 6:
      round_trip(bytes, local::decode_extent_owner);
      break;
    case 7:
      (void)local::decode_inline(bytes);
      break;
    case 8:
      (void)local::keys::parse_upload(bytes);
      (void)local::keys::parse_extent(bytes);
      (void)local::keys::parse_dead(bytes);
      break;
  }
  return 0;
}
