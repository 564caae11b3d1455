#include "call/request_id.h"

#include <atomic>
#include <cstdint>

#include "base/hex.h"

namespace verbena::call {

// A counter scrambled by a secret of the process, so that ids neither repeat nor reveal the number of requests.
std::string make_request_id() {
  static const uint64_t start = [] {
    uint64_t value;
    fill_random({reinterpret_cast<std::byte*>(&value), sizeof value});
    return value;
  }();
  static std::atomic<uint64_t> counter{0};
  // splitmix64's finalizer (Steele, Lea, Flood 2014): a bijection.
  uint64_t x = start + counter.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  std::string id(request_id_size, '0');
  write_request_id(x, id.data());
  return id;
}

}  // namespace verbena::call
