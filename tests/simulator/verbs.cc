// Verbs that change objects, and what the oracle is told of their answers.
#include <fmt/format.h>

#include "base/date.h"
#include "memory/text_source.h"
#include "simulator/scheduler.h"
#include "simulator/server.h"

namespace verbena::simulator {
namespace {

using Kind = Operation::Kind;
using Outcome = Operation::Outcome;

store::Tags tags_of(uint32_t tag) {
  if (tag == 0) return {};
  return {{"t", std::to_string(tag)}};
}

std::string tagging_xml(uint32_t tag) {
  const std::string one = tag == 0 ? "" : fmt::format("<Tag><Key>t</Key><Value>{}</Value></Tag>", tag);
  return "<Tagging><TagSet>" + one + "</TagSet></Tagging>";
}

}  // namespace

Version World::draw_properties(const Bucket& bucket) {
  Version with;
  if (bucket.kind == BucketKind::directory) return with;
  if (draw(3) == 0) with.tag = 1 + static_cast<uint32_t>(draw(2));
  if (!bucket.locks || draw(3) != 0) return with;
  if (draw(3) == 0) {
    with.hold = true;
  } else {
    with.lock = draw(2) == 0 ? Lock::governance : Lock::compliance;
    with.locked_until_ns = ((Scheduler::get().wall_ns() + engine_->clocks_apart_ns()) / 1'000'000'000 + 2 +
                            static_cast<int64_t>(draw(3))) *
                           1'000'000'000;
  }
  return with;
}

void World::put(Loop& loop, Bucket& bucket, uint32_t key) {
  constexpr size_t sizes[] = {8, 300, 5000, 20'000, 70'000, 200'000};
  const uint32_t value = values_.add(sizes[draw(16) == 0 ? 3 + draw(3) : draw(3)]);
  const std::string& bytes = values_.bytes(value);
  Operation operation{.kind = Kind::put, .key = key, .value = value, .content = value, .with = draw_properties(bucket)};
  s3::PutRequest request{};
  request.bucket = bucket.name;
  request.key = bucket.history.model().key(key);
  request.tags = tags_of(operation.with.tag);
  request.lock = {.mode = static_cast<store::LockMode>(operation.with.lock),
                  .retain_until_us = operation.with.locked_until_ns / 1000,
                  .legal_hold = operation.with.hold};
  if (draw(4) == 0 && bucket.kind != BucketKind::directory) request.encryption.method = s3::Encryption::aes256;
  if (const uint64_t choice = draw(8); choice == 0) {
    operation.condition = Operation::If::absent;
    request.conditions.if_none_match = "*";
  } else if (choice == 1 && bucket.last[key] != 0 && bucket.kind != BucketKind::directory) {
    operation.condition = Operation::If::matches;
    operation.expected = bucket.last[key];
    request.conditions.if_match = values_.etag(bucket.last[key]);
  }
  Operation& under_way = begin(bucket, std::move(operation));
  memory::TextSource source(bytes);
  const s3::Call call = root_call();
  auto done = run_on(loop, s3::put_object(*server_->service, call, std::move(request), source));
  if (done) {
    if (bucket.versioned()) bucket.know(key, value, value, done->info.version_id);
    bucket.last[key] = value;
    return answer(bucket, under_way);
  }
  const bool conditional = under_way.condition != Operation::If::always;
  if (conditional && done.error() == Errc::precondition_failed) return answer(bucket, under_way, Outcome::refused);
  if (conditional && done.error() == Errc::no_such_key) return answer(bucket, under_way, Outcome::missing);
  answer_error(bucket, under_way, done.error());
}

// Two operations: what the source had, and the put. Its condition says beforehand which bytes it may bring. Onto
// itself, too, which needs other headers.
void World::copy(Loop& loop, Bucket& bucket, uint32_t key) {
  if (bucket.versioned() && draw(3) == 0) return copy_version(loop, bucket, key);
  const auto from = static_cast<uint32_t>(draw(bucket.last.size()));
  const uint32_t content = bucket.last[from];
  if (content == 0) return;
  const uint32_t value = values_.add(0);
  Operation& read = begin(bucket, {.kind = Kind::read, .key = from, .expected = content});
  Operation& write = begin(bucket, {.kind = Kind::put, .key = key, .value = value, .content = content});
  const auto& name = [&](uint32_t of) { return bucket.history.model().key(of); };
  s3::Headers headers{{"x-amz-copy-source", fmt::format("{}/{}", bucket.name, name(from))},
                      {"x-amz-copy-source-if-match", values_.etag(content)},
                      {"x-amz-tagging-directive", "REPLACE"}};
  if (from == key || draw(4) == 0) headers.emplace_back("x-amz-metadata-directive", "REPLACE");
  if (draw(4) == 0) headers.emplace_back("x-amz-server-side-encryption", "AES256");
  const Reply reply = ask(loop, "PUT", fmt::format("/{}/{}", bucket.name, name(key)), std::move(headers));
  if (reply.status == 200 && reply.code.empty() && !reply.version_id.empty())
    bucket.know(key, value, content, reply.version_id);
  if (reply.ok()) {
    read.seen = {{content}};
    answer(bucket, read);
    return answer(bucket, write);
  }
  if (reply.code == "PreconditionFailed" || reply.code == "NoSuchKey") {
    // Nothing was put: as a condition that did not hold.
    write.kind = Kind::read;
    write.key = from;
    write.value = write.content = 0;
    write.expected = content;
    answer(bucket, read, Outcome::refused);
    return answer(bucket, write, Outcome::refused);
  }
  answer_error(bucket, read, reply);
  answer_error(bucket, write, reply);
}

// Of a version that was acknowledged: it has its bytes as long as it is there.
void World::copy_version(Loop& loop, Bucket& bucket, uint32_t key) {
  if (bucket.versions.empty()) return;
  const Bucket::Known known = bucket.versions[draw(bucket.versions.size())];
  if (known.content == 0) return;
  const uint32_t value = values_.add(0);
  Operation& read = begin(bucket, {.kind = Kind::read_version, .key = known.key, .value = known.value});
  Operation& write = begin(bucket, {.kind = Kind::put, .key = key, .value = value, .content = known.content});
  const Model& model = bucket.history.model();
  s3::Headers headers{
      {"x-amz-copy-source", fmt::format("{}/{}?versionId={}", bucket.name, model.key(known.key), known.id)},
      {"x-amz-metadata-directive", "REPLACE"},
      {"x-amz-tagging-directive", "REPLACE"}};
  const Reply reply = ask(loop, "PUT", fmt::format("/{}/{}", bucket.name, model.key(key)), std::move(headers));
  if (reply.ok() && reply.code.empty()) {
    bucket.know(key, value, known.content, reply.version_id);
    read.seen = {{known.content}};
    answer(bucket, read);
    return answer(bucket, write);
  }
  if (reply.code == "NoSuchVersion" || reply.code == "NoSuchKey") {
    write.kind = Kind::read;  // no operation at all
    answer(bucket, read, Outcome::missing);
    return close(bucket, write, 251);
  }
  answer_error(bucket, read, reply);
  answer_error(bucket, write, reply);
}

void World::remove(Loop& loop, Bucket& bucket, uint32_t key) {
  // A marker is named, too.
  const uint32_t value = bucket.versioned() ? values_.add(0) : 0;
  Operation operation{.kind = Kind::remove, .key = key, .value = value};
  store::RemoveRequest request;
  if (bucket.last[key] != 0 && bucket.kind != BucketKind::directory && draw(4) == 0) {
    operation.condition = Operation::If::matches;
    operation.expected = bucket.last[key];
    request.conditions.if_match = values_.etag(bucket.last[key]);
  }
  Operation& under_way = begin(bucket, std::move(operation));
  const s3::Call call = root_call();
  const std::string& name = bucket.history.model().key(key);
  auto done = run_on(loop, s3::delete_object(*server_->service, call, bucket.name, name, std::move(request)));
  const bool conditional = under_way.condition != Operation::If::always;
  if (conditional && !done && done.error() == Errc::precondition_failed) {
    return answer(bucket, under_way, Outcome::refused);
  }
  if (!done) return answer_error(bucket, under_way, done.error());
  if (conditional && done->version_id.empty()) under_way.value = 0;
  if (under_way.value != 0) bucket.know(key, value, 0, done->version_id);
  answer(bucket, under_way);
}

void World::remove_version(Loop& loop, Bucket& bucket) {
  if (bucket.versions.empty()) return;
  // Often one of the newest: what it uncovers becomes current.
  const size_t among = draw(2) == 0 ? std::min<size_t>(4, bucket.versions.size()) : bucket.versions.size();
  Bucket::Known known = bucket.versions[bucket.versions.size() - 1 - draw(among)];
  for (int tries = 0; in_storm() && known.key != storm_.key && tries < 8; ++tries) {
    known = bucket.versions[draw(bucket.versions.size())];
  }
  Operation& operation = begin(
      bucket,
      {.kind = Kind::remove_version, .key = known.key, .value = known.value, .bypass = bucket.locks && draw(3) == 0});
  s3::Headers headers;
  if (operation.bypass) headers.emplace_back("x-amz-bypass-governance-retention", "true");
  const Reply reply = ask(
      loop, "DELETE", fmt::format("/{}/{}?versionId={}", bucket.name, bucket.history.model().key(known.key), known.id),
      std::move(headers));
  if (reply.ok()) return answer(bucket, operation);
  if (bucket.locks && reply.code == "AccessDenied") return answer(bucket, operation, Outcome::refused);
  answer_error(bucket, operation, reply);
}

// With versioning of a version that is named: without, of the key's object.
void World::set_tag(Loop& loop, Bucket& bucket, uint32_t key) {
  if (bucket.versioned() && bucket.versions.empty()) return;
  Operation operation{.kind = Kind::set_tag, .key = key};
  operation.with.tag = static_cast<uint32_t>(draw(3));
  std::string query = "?tagging";
  if (bucket.versioned()) {
    const Bucket::Known& known = bucket.versions[draw(bucket.versions.size())];
    operation.key = known.key;
    operation.value = known.value;
    query += "&versionId=" + known.id;
  }
  Operation& under_way = begin(bucket, std::move(operation));
  const std::string target = fmt::format("/{}/{}{}", bucket.name, bucket.history.model().key(under_way.key), query);
  const Reply reply = ask(loop, "PUT", target, {}, tagging_xml(under_way.with.tag));
  if (reply.ok()) return answer(bucket, under_way);
  if (reply.code == "NoSuchKey" || reply.code == "NoSuchVersion" || reply.code == "MethodNotAllowed") {
    return answer(bucket, under_way, Outcome::missing);
  }
  // Without versioning others may write the key again and again.
  if (reply.code == "ConditionalRequestConflict" && !bucket.versioned() && bucket.history.is_overtaken(under_way)) {
    return close(bucket, under_way, 254);
  }
  answer_error(bucket, under_way, reply);
}

void World::set_hold(Loop& loop, Bucket& bucket) {
  if (bucket.versions.empty()) return;
  const Bucket::Known known = bucket.versions[draw(bucket.versions.size())];
  Operation operation{.kind = Kind::set_hold, .key = known.key, .value = known.value};
  operation.with.hold = draw(3) == 0;
  Operation& under_way = begin(bucket, std::move(operation));
  const std::string target =
      fmt::format("/{}/{}?legal-hold&versionId={}", bucket.name, bucket.history.model().key(known.key), known.id);
  const Reply reply =
      ask(loop, "PUT", target, {},
          fmt::format("<LegalHold><Status>{}</Status></LegalHold>", under_way.with.hold ? "ON" : "OFF"));
  if (reply.ok()) return answer(bucket, under_way);
  if (reply.code == "NoSuchVersion" || reply.code == "NoSuchKey" || reply.code == "MethodNotAllowed") {
    return answer(bucket, under_way, Outcome::missing);
  }
  answer_error(bucket, under_way, reply);
}

void World::set_lock(Loop& loop, Bucket& bucket) {
  if (bucket.versions.empty()) return;
  const Bucket::Known known = bucket.versions[draw(bucket.versions.size())];
  Operation operation{.kind = Kind::set_lock, .key = known.key, .value = known.value, .bypass = draw(3) == 0};
  operation.with.lock = draw(2) == 0 ? Lock::governance : Lock::compliance;
  const int64_t until_s =
      (Scheduler::get().wall_ns() + engine_->clocks_apart_ns()) / 1'000'000'000 + 2 + static_cast<int64_t>(draw(4));
  operation.with.locked_until_ns = until_s * 1'000'000'000;
  Operation& under_way = begin(bucket, std::move(operation));
  s3::Headers headers;
  if (under_way.bypass) headers.emplace_back("x-amz-bypass-governance-retention", "true");
  const std::string target =
      fmt::format("/{}/{}?retention&versionId={}", bucket.name, bucket.history.model().key(known.key), known.id);
  const Reply reply = ask(loop, "PUT", target, std::move(headers),
                          fmt::format("<Retention><Mode>{}</Mode><RetainUntilDate>{}</RetainUntilDate></Retention>",
                                      under_way.with.lock == Lock::governance ? "GOVERNANCE" : "COMPLIANCE",
                                      format_iso8601(until_s * 1'000'000)));
  if (reply.ok()) return answer(bucket, under_way);
  if (reply.code == "AccessDenied") return answer(bucket, under_way, Outcome::refused);
  // The clock has jumped there meanwhile: it was no operation at all.
  if (reply.code == "InvalidArgument" && latest_ns() >= under_way.with.locked_until_ns) {
    under_way.kind = Kind::read;
    return close(bucket, under_way, 253);
  }
  if (reply.code == "NoSuchVersion" || reply.code == "NoSuchKey" || reply.code == "MethodNotAllowed") {
    return answer(bucket, under_way, Outcome::missing);
  }
  answer_error(bucket, under_way, reply);
}

// Half of them with an offset, which few appenders at once meet.
void World::append(Loop& loop, Bucket& bucket, uint32_t key) {
  constexpr size_t sizes[] = {8, 100, 3000, 9000};
  const uint32_t value = values_.add(sizes[draw(4)]);
  Operation operation{.kind = Kind::append, .key = key, .value = value, .content = value};
  s3::PutRequest request{};
  request.bucket = bucket.name;
  request.key = bucket.history.model().key(key);
  request.append = s3::PutRequest::Append{};
  if (draw(2) == 0) {
    const auto now = run_on(loop, server_->store->stat(bucket.name, request.key, {}));
    operation.condition = Operation::If::size;
    operation.expected = now ? now->size : 0;
    request.append->offset = operation.expected;
  }
  Operation& under_way = begin(bucket, std::move(operation));
  const std::string& bytes = values_.bytes(value);
  memory::TextSource source(bytes);
  const s3::Call call = root_call();
  const auto done = run_on(loop, s3::put_object(*server_->service, call, std::move(request), source));
  if (done) return answer(bucket, under_way);
  if (done.error() == Errc::invalid_write_offset) return answer(bucket, under_way, Outcome::refused);
  answer_error(bucket, under_way, done.error());
}

void World::rename(Loop& loop, Bucket& bucket, uint32_t key) {
  const Model& model = bucket.history.model();
  Operation operation{.kind = Kind::rename, .key = key, .to = static_cast<uint32_t>(draw(model.keys()))};
  s3::RenameObjectRequest request{
      .bucket = bucket.name, .from = model.key(key), .to = model.key(operation.to), .source = {}, .target = {}};
  if (draw(2) == 0) {
    operation.condition = Operation::If::absent;
    request.target.if_none_match = {"*"};
  }
  Operation& under_way = begin(bucket, std::move(operation));
  const s3::Call call = root_call();
  const auto done = run_on(loop, s3::rename_object(*server_->service, call, std::move(request)));
  if (done) return answer(bucket, under_way);
  if (done.error() == Errc::no_such_key) return answer(bucket, under_way, Outcome::missing);
  if (done.error() == Errc::precondition_failed) return answer(bucket, under_way, Outcome::refused);
  answer_error(bucket, under_way, done.error());
}

}  // namespace verbena::simulator
