// Batches by the native door. Each item is an operation of its own for the oracle.
#include <fmt/format.h>

#include <algorithm>

#include "client/native/streams.h"
#include "simulator/native.h"
#include "simulator/scheduler.h"
#include "simulator/server.h"

namespace verbena::simulator {
namespace {

using Kind = Operation::Kind;
using Outcome = Operation::Outcome;
using client::ManyCall;
using native::wire::Type;

constexpr size_t gap = 24;  // between the places of two items

// The answer that leaves open whether a write has happened, or whether there is an object.
bool is_open(const BatchResult& result) { return result.error && *result.error != ErrorCode::no_such_key; }

ManyCall make_call(Type type, std::span<const BatchItem> items, std::span<BatchResult> results) {
  ManyCall call;
  call.type = type;
  call.items = items;
  call.results = results;
  return call;
}

Error as_error(ErrorCode code) {
  const bool of_transport = code == ErrorCode::connection_failed || code == ErrorCode::timed_out ||
                            code == ErrorCode::outcome_unknown || code == ErrorCode::server_error;
  if (code == ErrorCode::slow_down) return {.code = Errc::slow_down, .sys = 0, .context = "native: an item"};
  return {.code = of_transport ? Errc::closed : Errc::internal,
          .sys = static_cast<int>(code),
          .context = "native: an item's error"};
}

}  // namespace

std::vector<uint32_t> World::Native::draw_keys(const Bucket& bucket, bool distinct) {
  std::vector<uint32_t> keys;
  for (uint64_t count = 1 + draw(5); count > 0; --count) {
    const auto key = static_cast<uint32_t>(draw(bucket.last.size()));
    if (!distinct || std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

Result<void> World::Native::run(const Attempt& attempt, ManyCall& call, bool repeatable) {
  call.timeout = std::chrono::seconds(30);
  call.verify = call.checked = draw(2) == 0;
  return attempt.session->with_streams(repeatable,
                                       [&](client::NativeStreams& streams) { return run_many(streams, call); });
}

// What is reported in order is there, and nothing is written there any more.
void World::Native::get_many(const Attempt& attempt, Bucket& bucket) {
  constexpr size_t sizes[] = {400, 8000, 210'000};
  const Model& model = bucket.history.model();
  const std::vector<uint32_t> keys = draw_keys(bucket, false);
  const size_t place = sizes[draw(3)];
  const auto memory = std::make_shared<Guarded>(keys.size() * (place + gap) + gap);
  std::vector<BatchItem> items;
  std::vector<BatchResult> results(keys.size());
  std::vector<Operation*> reads;
  for (const uint32_t key : keys) {
    items.push_back(
        {.bucket = bucket.name, .key = model.key(key), .offset = gap + items.size() * (place + gap), .size = place});
    reads.push_back(&world_.begin(bucket, {.kind = Kind::read, .key = key, .seen = {{}}}));
  }
  const MutableBytes window = memory->bytes();
  ManyCall call = make_call(Type::get_many, items, results);
  call.windows = std::span(&window, 1);
  std::vector<std::vector<std::byte>> told;
  if (draw(2) == 0) {
    call.in_order = [&](size_t leading) {
      while (told.size() < leading) {
        const BatchItem& item = items[told.size()];
        const Bytes bytes = Bytes(window).subspan(item.offset, item.size);
        told.emplace_back(bytes.begin(), bytes.end());
      }
      // Where the session breaks before the answer, an item has another object when it is asked for again.
      if (leading == 0 || draw(3) != 0 || !bucket.history.has_room()) return;
      if (fabric_.is_faulty() && draw(3) == 0) fabric_.cut(attempt.slot.host);
      world_.put(World::server_->loops.emplace_back(), bucket, keys[draw(leading)]);
    };
  }
  const auto done = run(attempt, call, true);
  if (done) succeeded(attempt);
  if (!done) note_error(attempt, "GET_MANY", done.error());
  std::vector<std::pair<size_t, size_t>> written;
  for (size_t i = 0; i < items.size(); ++i) {
    const BatchResult& result = results[i];
    const Bytes at = Bytes(window).subspan(items[i].offset, items[i].size);
    if (i < told.size() && !std::ranges::equal(told[i], at)) {
      world_.fail_with(fmt::format("native: item {} was written after it was reported", i));
    }
    const bool answered = call.answered.size() > i && call.answered[i] != 0;
    // Its bytes may have come, its answer not.
    if (!answered || (result.error && *result.error == ErrorCode::connection_failed)) {
      written.emplace_back(items[i].offset, items[i].offset + items[i].size);
      world_.close(bucket, *reads[i], 248);
      continue;
    }
    if (result.error && *result.error == ErrorCode::buffer_too_small) {
      reads[i]->condition = Operation::If::larger;
      reads[i]->expected = place;
      world_.answer(bucket, *reads[i], Outcome::refused);
      continue;
    }
    if (is_open(result)) {
      written.emplace_back(items[i].offset, items[i].offset + items[i].size);
      note_error(attempt, fmt::format("{}: an item", bucket.name), as_error(*result.error));
      world_.close(bucket, *reads[i], 246);
      continue;
    }
    if (!result.error) {
      written.emplace_back(items[i].offset, items[i].offset + result.bytes);
      read_bytes(bucket, at.first(result.bytes), result.etag, *reads[i]);
    }
    world_.answer(bucket, *reads[i]);
  }
  // Of a session that broke, items were asked for again: the bytes of the first answer may have been more.
  if (attempt.slot.dials != attempt.dials) {
    written.clear();
    for (const BatchItem& item : items) written.emplace_back(item.offset, item.offset + item.size);
  }
  if (!memory->untouched_but(written)) world_.fail_with("native: GET_MANY has written beside its items' bytes");
  if (!done) keep_late(memory);
}

void World::Native::head_many(const Attempt& attempt, Bucket& bucket) {
  const Model& model = bucket.history.model();
  const std::vector<uint32_t> keys = draw_keys(bucket, false);
  std::vector<BatchItem> items;
  std::vector<BatchResult> results(keys.size());
  std::vector<Operation*> reads;
  for (const uint32_t key : keys) {
    items.push_back({.bucket = bucket.name, .key = model.key(key)});
    reads.push_back(&world_.begin(bucket, {.kind = Kind::read, .key = key, .seen = {{}}}));
  }
  ManyCall call = make_call(Type::head_many, items, results);
  const auto done = run(attempt, call, true);
  if (done) succeeded(attempt);
  if (!done) note_error(attempt, "HEAD_MANY", done.error());
  for (size_t i = 0; i < items.size(); ++i) {
    const bool answered = call.answered.size() > i && call.answered[i] != 0;
    if (answered && is_open(results[i])) note_error(attempt, "an item", as_error(*results[i].error));
    if (!answered || is_open(results[i])) {
      world_.close(bucket, *reads[i], 245);
      continue;
    }
    if (!results[i].error) reads[i]->seen[0] = {world_.values_.named(results[i].etag)};
    world_.answer(bucket, *reads[i]);
  }
}

// In directory buckets: elsewhere the oracle names bytes by an ETag that these have not.
void World::Native::put_many(const Attempt& attempt, Bucket& bucket) {
  constexpr size_t sizes[] = {8, 300, 5000, 30'000};
  const Model& model = bucket.history.model();
  const std::vector<uint32_t> keys = draw_keys(bucket, true);
  std::string bytes;
  std::vector<BatchItem> items;
  std::vector<BatchResult> results(keys.size());
  std::vector<Operation*> writes;
  for (const uint32_t key : keys) {
    const uint32_t value = world_.values_.add(sizes[draw(4)]);
    items.push_back(
        {.bucket = bucket.name, .key = model.key(key), .offset = bytes.size(), .size = world_.values_.size(value)});
    bytes += world_.values_.bytes(value) + std::string(draw(40), '#');
    Operation operation{.kind = Kind::put, .key = key, .value = value, .content = value};
    const bool conditional = draw(4) == 0;
    if (conditional) operation.condition = Operation::If::absent;
    if (conditional) items.back().if_none_match = "*";
    writes.push_back(&world_.begin(bucket, std::move(operation)));
  }
  const MutableBytes window = std::as_writable_bytes(std::span(bytes));
  ManyCall call = make_call(Type::put_many, items, results);
  call.windows = std::span(&window, 1);
  const auto done = run(attempt, call, false);
  if (done) succeeded(attempt);
  if (!done) note_error(attempt, "PUT_MANY", done.error());
  std::vector<Operation*> open;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool answered = call.answered.size() > i && call.answered[i] != 0;
    if (answered && !results[i].error) {
      if (results[i].bytes != items[i].size) world_.fail_with("native: an item of another length");
      world_.answer(bucket, *writes[i]);
    } else if (answered && *results[i].error == ErrorCode::precondition_failed) {
      world_.answer(bucket, *writes[i], Outcome::refused);
    } else {
      if (answered) note_error(attempt, "an item of PUT_MANY", as_error(*results[i].error));
      open.push_back(writes[i]);
    }
  }
  close_failed(bucket, open);
}

void World::Native::remove_many(const Attempt& attempt, Bucket& bucket) {
  const Model& model = bucket.history.model();
  const std::vector<uint32_t> keys = draw_keys(bucket, true);
  std::vector<BatchItem> items;
  std::vector<BatchResult> results(keys.size());
  std::vector<Operation*> writes;
  for (const uint32_t key : keys) {
    items.push_back({.bucket = bucket.name, .key = model.key(key)});
    const uint32_t value = bucket.versioned() ? world_.values_.add(0) : 0;
    writes.push_back(&world_.begin(bucket, {.kind = Kind::remove, .key = key, .value = value}));
  }
  ManyCall call = make_call(Type::delete_many, items, results);
  const auto done = run(attempt, call, false);
  if (done) succeeded(attempt);
  if (!done) note_error(attempt, "DELETE_MANY", done.error());
  std::vector<Operation*> open;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool answered = call.answered.size() > i && call.answered[i] != 0;
    if (answered && !results[i].error) {
      if (bucket.versioned()) bucket.know(keys[i], writes[i]->value, 0, results[i].version_id);
      world_.answer(bucket, *writes[i]);
    } else {
      if (answered) note_error(attempt, "an item of DELETE_MANY", as_error(*results[i].error));
      open.push_back(writes[i]);
    }
  }
  close_failed(bucket, open);
}

}  // namespace verbena::simulator
