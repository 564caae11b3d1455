// A consumer and a producer against a peer that writes arbitrary values into the shared ring between their steps.
// Input: steps of [what, where (2 bytes), value (8 bytes)].
#include <cstdint>
#include <vector>

#include "fabric/local/ring.h"
#include "fabric/local/shared_region.h"

using namespace verbena::fabric::local;  // NOLINT: a fuzzer's main file

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t ring_size = 8192, message_size_max = 2000;
  static SharedRegion region = std::move(*SharedRegion::create(ring_size, message_size_max));
  const RingMemory memory = region.to_server();
  memory.indices->head.store(0);
  memory.indices->tail.store(0);
  std::memset(memory.data, 0, ring_size);
  Consumer consumer(memory);
  Producer producer(region.to_client());
  region.to_client().indices->head.store(0);
  region.to_client().indices->tail.store(0);
  std::vector<std::byte> copy(message_size_max);
  bool consuming = true, producing = true;

  for (; size >= 11; data += 11, size -= 11) {
    uint16_t where;
    uint64_t value;
    std::memcpy(&where, data + 1, sizeof where);
    std::memcpy(&value, data + 3, sizeof value);
    switch (data[0] % 5) {
      case 0:
        memory.indices->head.store(value);
        break;
      case 1:
        region.to_client().indices->tail.store(value);
        break;
      case 2:
        std::memcpy(memory.data + where % ring_size, &value, sizeof value);
        break;
      case 3: {
        verbena::Bytes view;
        if (!consuming) break;
        const auto outcome = consumer.peek(view);
        consuming = outcome != Consumer::Pop::violated;
        if (outcome != Consumer::Pop::message) break;
        if (view.empty() || view.size() > message_size_max) __builtin_trap();
        std::memcpy(copy.data(), view.data(), view.size());
        consumer.release();
        break;
      }
      default:
        if (producing) {
          const auto part = verbena::Bytes(copy).first(1 + where % message_size_max);
          producing = producer.push(part, {}) != Producer::Push::violated;
        }
    }
  }
  return 0;
}
