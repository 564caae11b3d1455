// Verbs by the native door, and what the oracle is told of their answers.
#include <fmt/format.h>

#include <condition_variable>

#include "simulator/native.h"
#include "simulator/scheduler.h"
#include "simulator/server.h"

namespace verbena::simulator {
namespace {

using Kind = Operation::Kind;
using Outcome = Operation::Outcome;
using client::NativeGet;
using client::NativeObject;
using client::NativePut;

// Starts a request and waits for its completion, which may come on any thread.
template <class Start>
Result<NativeObject> wait_for(const Start& start) {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<Result<NativeObject>> outcome;
  start([&](Result<NativeObject> object) {
    const std::lock_guard lock(mutex);
    outcome = std::move(object);
    came.notify_all();
  });
  std::unique_lock lock(mutex);
  came.wait(lock, [&] { return outcome.has_value(); });
  return std::move(*outcome);
}

}  // namespace

// `once`: it is not sent again when its session broke.
Result<NativeObject> World::Native::call_put(const Attempt& attempt, const NativePut& request, bool once) {
  if (!once && draw(3) != 0) return attempt.session->put(request);
  return wait_for([&](const client::NativeSession::Done& done) { attempt.session->put_async(request, done); });
}

Result<NativeObject> World::Native::call_get(const Attempt& attempt, const NativeGet& request) {
  if (draw(3) != 0) return attempt.session->get(request);
  return wait_for([&](const client::NativeSession::Done& done) { attempt.session->get_async(request, done); });
}

void World::Native::put(const Attempt& attempt, Bucket& bucket, uint32_t key) {
  constexpr size_t sizes[] = {8, 300, 5000, 20'000, 70'000, 200'000};
  const uint32_t value = world_.values_.add(sizes[draw(8) == 0 ? 3 + draw(3) : draw(3)]);
  const std::string bytes = world_.values_.bytes(value);
  Operation operation{.kind = Kind::put, .key = key, .value = value, .content = value};
  NativePut request;
  request.bucket = bucket.name;
  request.key = bucket.history.model().key(key);
  request.from = as_bytes(bytes);
  request.md5_etag = true;
  const bool directory = bucket.kind == BucketKind::directory;
  if (const uint64_t choice = draw(8); choice == 0) {
    operation.condition = Operation::If::absent;
    request.if_none_match = "*";
  } else if (choice == 1 && bucket.last[key] != 0 && !directory) {
    operation.condition = Operation::If::matches;
    operation.expected = bucket.last[key];
    request.if_match = world_.values_.etag(bucket.last[key]);
  }
  const std::string etag(request.if_match);
  request.if_match = etag;
  Operation& under_way = world_.begin(bucket, std::move(operation));
  const bool conditional = under_way.condition != Operation::If::always;
  // A version that was made twice would have two ids.
  const auto done = call_put(attempt, request, bucket.versioned());
  Operation* const ghost = conditional || bucket.versioned() ? nullptr : ghost_of(attempt, bucket, under_way);
  if (done) {
    succeeded(attempt);
    if (done->length != bytes.size()) world_.fail_with("native: a put of another length");
    if (!directory && done->etag != world_.values_.etag(value)) world_.fail_with("native: a put with another ETag");
    if (bucket.versioned()) bucket.know(key, value, value, done->version_id);
    bucket.last[key] = value;
    world_.answer(bucket, under_way);
  } else if (conditional && done.error() == Errc::precondition_failed) {
    world_.answer(bucket, under_way, Outcome::refused);
  } else if (conditional && done.error() == Errc::no_such_key) {
    world_.answer(bucket, under_way, Outcome::missing);
  } else {
    fail_write(attempt, bucket, under_way, done.error());
  }
  if (ghost != nullptr) close_failed(bucket, std::span(&ghost, 1));
}

// Whether they are whole values, and those of the tag.
bool World::Native::read_bytes(Bucket& bucket, Bytes bytes, const std::string& etag, Operation& operation) {
  operation.seen.assign(1, {});
  if (world_.recognize(bucket, as_text(bytes), etag, operation.seen[0])) return true;
  world_.fail_with(fmt::format("{}/{}: wrong bytes by the native door, {} of them, tag {}", bucket.name,
                               bucket.history.model().key(operation.key), bytes.size(), etag));
  return false;
}

void World::Native::get(const Attempt& attempt, Bucket& bucket, uint32_t key) {
  constexpr size_t sizes[] = {300, 6000, 256 * KiB, 256 * KiB};
  Operation& operation = world_.begin(bucket, {.kind = Kind::read, .key = key, .seen = {{}}});
  const auto memory = std::make_shared<Guarded>(sizes[draw(4)]);
  NativeGet request;
  request.bucket = bucket.name;
  request.key = bucket.history.model().key(key);
  request.into = memory->bytes();
  const auto object = call_get(attempt, request);
  if (object) {
    succeeded(attempt);
    if (object->length != object->object_size) world_.fail_with("native: a part of an object");
    if (!memory->untouched_behind(object->length)) world_.fail_with("native: memory behind an object was written");
    const Bytes bytes = Bytes(memory->bytes()).first(object->length);
    if (read_bytes(bucket, bytes, object->etag, operation) && bucket.kind != BucketKind::directory &&
        world_.values_.has_one_etag(operation.seen[0][0])) {
      bucket.last[key] = operation.seen[0][0];
    }
    return world_.answer(bucket, operation);
  }
  const bool answered = object.error() == Errc::no_such_key || object.error() == Errc::too_large;
  if (answered && !memory->untouched_behind(0)) world_.fail_with("native: an error has written memory");
  keep_late(memory);
  if (object.error() == Errc::no_such_key) return world_.answer(bucket, operation);
  if (object.error() == Errc::too_large) {
    operation.condition = Operation::If::larger;
    operation.expected = memory->bytes().size();
    return world_.answer(bucket, operation, Outcome::refused);
  }
  fail_read(attempt, bucket, operation, object.error());
}

void World::Native::head(const Attempt& attempt, Bucket& bucket, uint32_t key) {
  if (bucket.kind == BucketKind::directory) return get(attempt, bucket, key);
  Operation& operation = world_.begin(bucket, {.kind = Kind::read, .key = key, .seen = {{}}});
  NativeGet request;
  request.bucket = bucket.name;
  request.key = bucket.history.model().key(key);
  const auto object = attempt.session->head(request);
  if (object) {
    succeeded(attempt);
    operation.seen[0] = {world_.values_.named(object->etag)};
    if (object->object_size != world_.values_.size(operation.seen[0][0])) {
      world_.fail_with(fmt::format("native: HEAD of {}/{}: {} bytes", bucket.name, request.key, object->object_size));
    }
    return world_.answer(bucket, operation);
  }
  if (object.error() == Errc::no_such_key) return world_.answer(bucket, operation);
  fail_read(attempt, bucket, operation, object.error());
}

void World::Native::remove(const Attempt& attempt, Bucket& bucket, uint32_t key) {
  const uint32_t value = bucket.versioned() ? world_.values_.add(0) : 0;
  Operation& operation = world_.begin(bucket, {.kind = Kind::remove, .key = key, .value = value});
  const auto done = attempt.session->remove(bucket.name, bucket.history.model().key(key));
  if (!done) return fail_write(attempt, bucket, operation, done.error());
  succeeded(attempt);
  world_.answer(bucket, operation);
}

void World::Native::list(const Attempt& attempt, Bucket& bucket) {
  const Model& model = bucket.history.model();
  Operation& operation = world_.begin(bucket, {.kind = Kind::list});
  client::NativeList request;
  request.bucket = bucket.name;
  const auto page = attempt.session->list(request);
  if (!page) return fail_read(attempt, bucket, operation, page.error());
  succeeded(attempt);
  operation.seen.resize(model.keys());
  const bool directory = bucket.kind == BucketKind::directory;
  page->each([&](const native::wire::ListItem& item) {
    for (size_t key = 0; key < model.keys(); ++key) {
      if (item.key != model.key(key)) continue;
      operation.seen[key] = {directory ? static_cast<uint32_t>(item.size)
                                       : world_.values_.named(std::string(item.etag))};
    }
    return true;
  });
  world_.answer(bucket, operation);
}

void World::Native::append(const Attempt& attempt, Loop& loop, Bucket& bucket, uint32_t key) {
  constexpr size_t sizes[] = {8, 100, 3000, 9000};
  const uint32_t value = world_.values_.add(sizes[draw(4)]);
  const std::string bytes = world_.values_.bytes(value);
  Operation operation{.kind = Kind::append, .key = key, .value = value, .content = value};
  NativePut request;
  request.bucket = bucket.name;
  request.key = bucket.history.model().key(key);
  request.from = as_bytes(bytes);
  request.append_at = UINT64_MAX;
  if (draw(2) == 0) {
    const auto now = run_on(loop, below_->store->stat(bucket.name, request.key, {}));
    operation.condition = Operation::If::size;
    operation.expected = now ? now->size : 0;
    request.append_at = operation.expected;
  }
  Operation& under_way = world_.begin(bucket, std::move(operation));
  const auto done = call_put(attempt, request, false);
  if (done) {
    succeeded(attempt);
    return world_.answer(bucket, under_way);
  }
  if (done.error() == Errc::invalid_write_offset) return world_.answer(bucket, under_way, Outcome::refused);
  fail_write(attempt, bucket, under_way, done.error());
}

void World::Native::rename(const Attempt& attempt, Bucket& bucket, uint32_t key) {
  const Model& model = bucket.history.model();
  Operation operation{.kind = Kind::rename, .key = key, .to = static_cast<uint32_t>(draw(model.keys()))};
  native::wire::Rename request{.bucket = bucket.name, .from = model.key(key), .to = model.key(operation.to)};
  if (draw(2) == 0) {
    operation.condition = Operation::If::absent;
    request.if_none_match = "*";
  }
  Operation& under_way = world_.begin(bucket, std::move(operation));
  const auto done = attempt.session->rename(request);
  if (done) {
    succeeded(attempt);
    return world_.answer(bucket, under_way);
  }
  if (done.error() == Errc::no_such_key) return world_.answer(bucket, under_way, Outcome::missing);
  if (done.error() == Errc::precondition_failed) return world_.answer(bucket, under_way, Outcome::refused);
  fail_write(attempt, bucket, under_way, done.error());
}

}  // namespace verbena::simulator
