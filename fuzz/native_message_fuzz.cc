// Native messages as the server parses them: the frame, then the body of every request type.
#include <cstdlib>
#include <vector>

#include "native/wire/batch.h"
#include "native/wire/bodies.h"
#include "native/wire/device.h"
#include "native/wire/list_values.h"
#include "native/wire/match.h"
#include "native/wire/message.h"
#include "native/wire/watch.h"
#include "support/message_mutator.h"

using namespace verbena;
using namespace verbena::native;

namespace {

// Decoded input must encode to the same bytes again.
template <class T>
void expect_same(const T& decoded, Bytes body) {
  std::vector<std::byte> space(body.size());
  wire::Writer out(space);
  if (!encode(out, decoded)) std::abort();
  if (!std::equal(space.begin(), space.begin() + static_cast<std::ptrdiff_t>(out.size()), body.begin())) std::abort();
}

// A batch, read to the end, written again and read once more, is the same.
void expect_same_batch(Bytes body, wire::Type type) {
  auto reader = wire::BatchReader::open(body, type);
  if (!reader) return;
  // Its keys may be encoded less compactly than ours.
  std::vector<std::byte> space(body.size() + wire::batch_items_max * 17);
  wire::Writer out(space);
  wire::BatchWriter writer(out, type);
  if (!writer.begin(reader->head())) std::abort();
  wire::BatchItem item;
  while (reader->left() != 0) {
    if (!reader->next(item)) return;
    wire::BatchItem again = item;
    if (item.has(wire::field_place_next)) again.fields |= wire::field_place;
    if (!writer.add(again)) std::abort();
  }
  if (!reader->complete()) return;
  writer.finish();
  auto first = wire::BatchReader::open(body, type);
  auto second = wire::BatchReader::open(Bytes(space).first(out.size()), type);
  if (!second) std::abort();
  wire::BatchItem other;
  while (first->left() != 0) {
    if (!first->next(item) || !second->next(other)) std::abort();
    if (item.key != other.key || item.bucket != other.bucket || item.place.offset != other.place.offset ||
        item.place.size != other.place.size || item.version != other.version || item.if_match != other.if_match ||
        item.headers.count != other.headers.count || item.inline_bytes.size() != other.inline_bytes.size()) {
      std::abort();
    }
  }
  if (!second->complete()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes message = std::as_bytes(std::span(data, size));
  // As a whole message, and, without the frame, which a fuzzer cannot encrypt, as each body.
  if (const auto header = wire::parse_header(message, 16 * KiB)) {
    (void)wire::mac_matches({}, message);
    (void)wire::body_of(message);
  }
  if (const auto hello = wire::decode_hello(message)) expect_same(*hello, message);
  if (const auto get = wire::decode_get(message)) expect_same(*get, message);
  if (const auto put = wire::decode_put(message, true)) expect_same(*put, message);
  if (const auto put = wire::decode_put(message, false)) expect_same(*put, message);
  if (const auto append = wire::decode_append(message, true)) expect_same(*append, message);
  if (const auto append = wire::decode_append(message, false)) expect_same(*append, message);
  if (const auto rename = wire::decode_rename(message)) expect_same(*rename, message);
  if (const auto del = wire::decode_delete(message)) expect_same(*del, message);
  for (const auto type : {wire::Type::get_many, wire::Type::head_many, wire::Type::put_many, wire::Type::delete_many}) {
    expect_same_batch(message, type);
  }
  if (const auto list = wire::decode_list(message)) expect_same(*list, message);
  if (const auto list = wire::decode_list_values(message)) expect_same(*list, message);
  if (const auto match = wire::decode_match(message)) expect_same(*match, message);
  if (const auto watch = wire::decode_watch(message)) expect_same(*watch, message);
  if (const auto next = wire::decode_watch_next(message)) expect_same(*next, message);
  if (const auto end = wire::decode_watch_end(message)) expect_same(*end, message);
  if (const auto end = wire::decode_lease_end(message)) expect_same(*end, message);
  if (const auto device = wire::decode_device(message)) expect_same(*device, message);
  if (const auto end = wire::decode_device_end(message)) expect_same(*end, message);
  return 0;
}

// A body of some type stays one of it; a type that chance selects comes first, since many bodies are of several.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  fuzz::MessageMutator mutator(seed);
  if (mutator.chance.percent(70)) {
    const std::string body(reinterpret_cast<const char*>(data), size);
    const size_t first = mutator.chance.below(std::size(fuzz::request_types));
    const bool has_window = mutator.chance.percent(30);
    for (size_t i = 0; i < std::size(fuzz::request_types); ++i) {
      const auto type = fuzz::request_types[(first + i) % std::size(fuzz::request_types)];
      if (const auto made = mutator.mutate(type, as_bytes(body), has_window)) {
        return fuzz::put_back(*made, data, size_max);
      }
    }
  }
  return LLVMFuzzerMutate(data, size, size_max);
}
