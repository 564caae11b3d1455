#include "fabric/local/ring.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "fabric/local/fd.h"
#include "fabric/local/shared_region.h"
#include "fabric/local/test_support.h"

namespace verbena::fabric::local {
namespace {

using testing::pattern;

constexpr size_t ring_size = 16 * KiB;
constexpr size_t message_size_max = 4 * KiB;

struct Ring {
  Ring() : region(*SharedRegion::create(ring_size, message_size_max)) {}
  SharedRegion region;
  RingMemory memory = region.to_server();
  Producer producer{memory};
  Consumer consumer{memory};

  std::vector<std::byte> pop() {
    Bytes view;
    EXPECT_EQ(consumer.peek(view), Consumer::Pop::message);
    std::vector<std::byte> copy(view.begin(), view.end());
    consumer.release();
    return copy;
  }
};

TEST(Ring, AnEmptyRingHasNothing) {
  Ring ring;
  Bytes view;
  EXPECT_EQ(ring.consumer.peek(view), Consumer::Pop::none);
  EXPECT_FALSE(ring.consumer.pending());
  EXPECT_TRUE(ring.producer.fits(message_size_max));
}

TEST(Ring, BothOfAClientTakeThreeMappings) {
  const size_t before = testing::mappings_of("memfd:verbena-ring");
  const auto region = SharedRegion::create(ring_size, message_size_max);
  EXPECT_EQ(testing::mappings_of("memfd:verbena-ring") - before, SharedRegion::mappings);
  const RingMemory one = region->to_server(), other = region->to_client();
  std::memset(one.data, 1, ring_size);
  std::memset(other.data, 2, ring_size);
  EXPECT_EQ(std::count(one.data, one.data + 2 * ring_size, std::byte{1}), 2 * ptrdiff_t{ring_size});
  EXPECT_EQ(std::count(other.data, other.data + 2 * ring_size, std::byte{2}), 2 * ptrdiff_t{ring_size});
  EXPECT_EQ(region->permit(permits_max - 1).permit.load(), 0u);
}

TEST(Ring, AMessageInTwoPartsArrivesAsOne) {
  Ring ring;
  EXPECT_EQ(ring.producer.push(as_bytes("head "), as_bytes("body")), Producer::Push::ok);
  EXPECT_EQ(as_text(ring.pop()), "head body");
}

TEST(Ring, MessagesAreWholeWhereverTheyWrapAround) {
  // Each start offset in the ring, with a length that crosses its end from most of them.
  for (size_t start = 0; start < ring_size / record_alignment; ++start) {
    Ring ring;
    for (size_t i = 0; i < start; ++i) {
      ASSERT_EQ(ring.producer.push(as_bytes("x"), {}), Producer::Push::ok);
      ring.pop();
    }
    const auto message = pattern(message_size_max - start % 64, static_cast<unsigned>(start));
    ASSERT_EQ(ring.producer.push(message, {}), Producer::Push::ok);
    ASSERT_EQ(ring.pop(), message);
  }
}

TEST(Ring, AFullRingTakesNothingUntilAMessageWasConsumed) {
  Ring ring;
  const auto message = pattern(message_size_max - record_header_size);
  for (size_t i = 0; i < 4; ++i) ASSERT_EQ(ring.producer.push(message, {}), Producer::Push::ok);
  EXPECT_EQ(ring.producer.push(as_bytes("x"), {}), Producer::Push::full);
  EXPECT_FALSE(ring.producer.fits(1));
  ring.pop();
  EXPECT_TRUE(ring.producer.fits(1));
  EXPECT_EQ(ring.producer.push(message, {}), Producer::Push::ok);
  for (size_t i = 0; i < 4; ++i) ASSERT_EQ(ring.pop(), message);
}

TEST(Ring, BehavesLikeAQueueForAnySequenceOfMessages) {
  EXPECT_TRUE(rc::check("pushes and pops", [] {
    Ring ring;
    std::deque<std::vector<std::byte>> model;
    uint64_t used = 0;
    const auto steps =
        *rc::gen::container<std::vector<int>>(200, rc::gen::inRange(-2, static_cast<int>(message_size_max)));
    for (int step : steps) {
      if (step > 0) {
        const auto message = pattern(step, step);
        const bool fits = used + record_size(step) <= ring_size;
        const size_t cut = step / 3;
        const auto outcome = ring.producer.push(Bytes(message).first(cut), Bytes(message).subspan(cut));
        RC_ASSERT(outcome == (fits ? Producer::Push::ok : Producer::Push::full));
        if (fits) model.push_back(message), used += record_size(step);
        continue;
      }
      Bytes view;
      const auto outcome = ring.consumer.peek(view);
      RC_ASSERT(outcome == (model.empty() ? Consumer::Pop::none : Consumer::Pop::message));
      if (model.empty()) continue;
      RC_ASSERT(std::ranges::equal(view, model.front()));
      used -= record_size(model.front().size());
      model.pop_front();
      ring.consumer.release();
    }
  }));
}

TEST(Ring, TwoThreadsPassMessagesInOrder) {
  Ring ring;
  constexpr unsigned count = 50'000;
  std::thread producer([&] {
    for (unsigned i = 0; i < count;) {
      const auto message = std::as_bytes(std::span(&i, 1));
      if (ring.producer.push(message, {}) == Producer::Push::ok) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (unsigned i = 0; i < count;) {
    Bytes view;
    if (ring.consumer.peek(view) != Consumer::Pop::message) {
      std::this_thread::yield();
      continue;
    }
    unsigned got = 0;
    ASSERT_EQ(view.size(), sizeof got);
    std::memcpy(&got, view.data(), sizeof got);
    ASSERT_EQ(got, i++);
    ring.consumer.release();
  }
  producer.join();
}

TEST(Ring, AConsumerFindsOutAProducerThatLies) {
  Bytes view;
  // More than the ring can hold, backwards, between records.
  for (uint64_t head : {ring_size + 64, uint64_t{0} - 64, uint64_t{63}, uint64_t{1} << 63}) {
    Ring ring;
    ring.memory.indices->head.store(head);
    EXPECT_EQ(ring.consumer.peek(view), Consumer::Pop::violated) << head;
  }
  // No length, too long for a message, longer than what was published.
  for (uint64_t length : {uint64_t{0}, message_size_max + 1, uint64_t{57}, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    Ring ring;
    std::memcpy(ring.memory.data, &length, sizeof length);
    ring.memory.indices->head.store(64);
    EXPECT_EQ(ring.consumer.peek(view), Consumer::Pop::violated) << length;
  }
}

TEST(Ring, AProducerFindsOutAConsumerThatLies) {
  const auto message = pattern(message_size_max);
  for (uint64_t tail : {uint64_t{1} << 40, uint64_t{0} - 64}) {
    Ring ring;
    while (ring.producer.push(message, {}) == Producer::Push::ok) continue;
    ring.memory.indices->tail.store(tail);
    EXPECT_EQ(ring.producer.push(message, {}), Producer::Push::violated) << tail;
  }
}

}  // namespace
}  // namespace verbena::fabric::local
