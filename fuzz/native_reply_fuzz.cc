// A native server's messages as the client parses them: the frame, then the body of every reply type.
#include <cstdlib>
#include <string>
#include <vector>

#include "native/wire/batch.h"
#include "native/wire/bodies.h"
#include "native/wire/device.h"
#include "native/wire/list_items.h"
#include "native/wire/list_values.h"
#include "native/wire/match.h"
#include "native/wire/message.h"
#include "native/wire/watch.h"
#include "support/reply_mutator.h"

using namespace verbena;
using namespace verbena::native;

namespace {

// What was read is written again, and read as the same.
void check_list(wire::ListReader& reader, unsigned version) {
  std::vector<std::byte> again(64 * KiB);
  wire::ListWriter writer(again, version);
  std::string keys;
  wire::ListItem item;
  for (; reader.next(item); keys.append(item.key).append(item.etag)) {
    if (item.key.size() > wire::key_size_max || item.etag.size() > 0xff || !writer.add(item)) std::abort();
  }
  auto same = wire::ListReader::open(Bytes(again).first(writer.finish(reader.truncated())), version);
  if (!same || same->left() != writer.count()) std::abort();
  std::string found;
  while (same->next(item)) found.append(item.key).append(item.etag);
  if (!same->complete() || found != keys) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes message = std::as_bytes(std::span(data, size));
  if (const auto header = wire::parse_header(message, 32 * KiB)) (void)wire::mac_matches({}, message);
  (void)wire::decode_error(message);
  if (const auto reply = wire::decode_object_reply(message)) {
    if (reply->inline_bytes.size() != reply->inline_size) std::abort();
  }
  for (const unsigned version : {1u, wire::version_of_short_listings}) {
    if (auto reader = wire::ListReader::open(message, version)) check_list(*reader, version);
  }
  if (auto reply = wire::decode_batch_reply(message)) {
    wire::BatchEntry entry;
    for (uint16_t i = 0; i < reply->answered && wire::next_entry(*reply, entry); ++i) {
      if (entry.in_reply && entry.inline_bytes.size() != entry.length) std::abort();
    }
  }
  if (auto reader = wire::ValueReader::open(message)) {
    wire::ValueEntry value;
    while (reader->left() != 0 && reader->next(value)) {
      if (value.key.empty() || value.key.size() > wire::key_size_max || value.entry.in_reply) std::abort();
    }
  }
  if (auto reader = wire::MatchReader::open(message)) {
    wire::MatchedList list;
    while (reader->left() != 0 && reader->next(list)) {
      uint64_t named = 0;
      for (wire::MatchRun run; reader->next_run(run);) named += run.count;
      if (named > list.leading) std::abort();
    }
  }
  (void)wire::decode_watch_started(message);
  (void)wire::decode_device_shared(message);
  if (const auto news = wire::decode_watch_news(message)) {
    wire::Reader changes(news->changes);
    for (uint16_t i = 0; i < news->count; ++i) {
      const auto change = wire::next_change(changes);
      if (!change || change->key.size() > wire::key_size_max) std::abort();  // they were checked
    }
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  fuzz::ReplyMutator mutator(seed);
  if (mutator.chance.percent(70)) {
    const std::string body(reinterpret_cast<const char*>(data), size);
    if (const auto made = mutator.mutate(as_bytes(body))) return fuzz::put_back(*made, data, size_max);
  }
  return LLVMFuzzerMutate(data, size, size_max);
}
