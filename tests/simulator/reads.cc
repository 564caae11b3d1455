// Verbs that read, and what the oracle is told of the answers.
#include <fmt/format.h>

#include <set>

#include "s3/objects/read.h"
#include "simulator/server.h"

namespace verbena::simulator {
namespace {

using Kind = Operation::Kind;
using Outcome = Operation::Outcome;

Task<Result<std::string>> read_whole(std::shared_ptr<store::ObjectReader> reader, uint64_t size) {
  std::string bytes;
  while (bytes.size() < size) {
    const size_t n = std::min<uint64_t>(size - bytes.size(), store::ObjectReader::chunk_size_max);
    VB_CO_ASSIGN(const memory::Chunk chunk, co_await reader->read(bytes.size(), n));
    bytes += as_text(chunk.bytes);
  }
  co_return bytes;
}

uint32_t tag_of(const store::Tags& tags) {
  return tags.empty() ? 0 : static_cast<uint32_t>(std::stoul(tags.front().second));
}

}  // namespace

bool World::is_named(const Bucket& bucket, const std::vector<uint32_t>& values, const std::string& etag) const {
  return bucket.kind == BucketKind::directory || (values.size() == 1 && values_.named(etag) == values[0]);
}

void World::get(Loop& loop, Bucket& bucket, uint32_t key) {
  Operation& operation = begin(bucket, {.kind = Kind::read, .key = key, .seen = {{}}});
  const s3::Call call = root_call();
  const s3::GetRequest request{.bucket = bucket.name,
                               .key = bucket.history.model().key(key),
                               .range = {},
                               .part_number = draw(8) == 0 ? std::optional(1) : std::nullopt,
                               .preconditions = {}};
  auto opened = run_on(loop, s3::open_object(*server_->service, call, request));
  if (!opened && opened.error() == Errc::no_such_key) return answer(bucket, operation);
  // An upload's part has the number that it was sent with.
  if (!opened && opened.error() == Errc::invalid_part_number) return close(bucket, operation, 252);
  if (!opened) return answer_error(bucket, operation, opened.error());
  const auto bytes = run_on(loop, read_whole(opened->reader, opened->info().size));
  if (!bytes) return answer_error(bucket, operation, bytes.error());
  const bool whole = values_.split(*bytes, operation.seen[0]);
  if (!whole || !is_named(bucket, operation.seen[0], opened->info().etag)) {
    fail_with(fmt::format("{}/{}: wrong bytes", bucket.name, request.key));
  } else if (bucket.kind != BucketKind::directory && values_.has_one_etag(operation.seen[0][0])) {
    bucket.last[key] = operation.seen[0][0];
  }
  answer(bucket, operation);
}

void World::read_version(Loop& loop, Bucket& bucket) {
  if (bucket.versions.empty()) return;
  const Bucket::Known known = bucket.versions[draw(bucket.versions.size())];
  if (draw(2) == 0) return read_version_body(loop, bucket, known);
  Operation& operation =
      begin(bucket, {.kind = Kind::read_version, .key = known.key, .value = known.value, .seen = {{}}});
  const auto info =
      run_on(loop, server_->store->find_version(bucket.name, bucket.history.model().key(known.key), known.id));
  if (info) {
    if (!info->delete_marker) operation.seen[0] = {values_.named(info->etag)};
    operation.seen_tag = tag_of(info->tags);
    return answer(bucket, operation);
  }
  if (info.error() == Errc::no_such_version || info.error() == Errc::no_such_key) {
    return answer(bucket, operation, Outcome::missing);
  }
  answer_error(bucket, operation, info.error());
}

void World::read_version_body(Loop& loop, Bucket& bucket, const Bucket::Known& known) {
  Operation& operation =
      begin(bucket, {.kind = Kind::read_version, .key = known.key, .value = known.value, .seen = {{}}});
  const s3::Call call = root_call();
  s3::GetRequest request{};
  request.bucket = bucket.name;
  request.key = bucket.history.model().key(known.key);
  request.version_id = known.id;
  const auto opened = run_on(loop, s3::open_object(*server_->service, call, request));
  if (!opened) {
    if (opened.error() == Errc::method_not_allowed) return answer(bucket, operation);  // a marker
    if (opened.error() == Errc::no_such_version || opened.error() == Errc::no_such_key) {
      return answer(bucket, operation, Outcome::missing);
    }
    return answer_error(bucket, operation, opened.error());
  }
  const auto bytes = run_on(loop, read_whole(opened->reader, opened->info().size));
  if (!bytes) return answer_error(bucket, operation, bytes.error());
  operation.seen_tag = tag_of(opened->info().tags);
  if (!values_.split(*bytes, operation.seen[0]) || !is_named(bucket, operation.seen[0], opened->info().etag)) {
    fail_with(fmt::format("{}/{}: wrong bytes of version {}", bucket.name, request.key, known.id));
  }
  answer(bucket, operation);
}

// Nothing that was never put, and nothing twice.
void World::judge_page(const Bucket& bucket, const store::ListPage& page) {
  const Model& model = bucket.history.model();
  const std::string* last = nullptr;
  for (const store::ListEntry& entry : page.entries) {
    if (!model.has_key(entry.key)) fail_with(fmt::format("{}: a listing has {}", bucket.name, entry.key));
    if (last != nullptr && *last >= entry.key) {
      fail_with(fmt::format("{}: a listing has {} after {}", bucket.name, entry.key, *last));
    }
    last = &entry.key;
  }
}

// Each version once, the newest of a key as its latest, and under the id with which it was acknowledged what was put.
void World::judge_page(const Bucket& bucket, const store::VersionPage& page) {
  const Model& model = bucket.history.model();
  std::set<std::pair<std::string, std::string>> ids;
  const std::string* last = nullptr;
  const auto wrong = [&](const store::VersionEntry& entry, std::string_view what) {
    fail_with(fmt::format("{}: a listing's version {} of {}: {}", bucket.name, entry.info.version_id, entry.key, what));
  };
  for (const store::VersionEntry& entry : page.versions) {
    const bool newest = last == nullptr || *last != entry.key;
    if (!model.has_key(entry.key)) wrong(entry, "a key that was never put");
    if (last != nullptr && *last > entry.key) wrong(entry, "after " + *last);
    if (!ids.emplace(entry.key, entry.info.version_id).second) wrong(entry, "twice");
    if (entry.latest != newest) wrong(entry, newest ? "not the latest" : "the latest, too");
    last = &entry.key;
    const auto known = bucket.named.find(entry.info.version_id);
    if (known == bucket.named.end() || entry.info.version_id.empty()) continue;
    const uint32_t content = entry.info.delete_marker ? 0 : values_.named(entry.info.etag);
    if (model.key(known->second.key) != entry.key) wrong(entry, "of another key");
    if (known->second.content != content) wrong(entry, "another object");
  }
}

void World::list(Loop& loop, Bucket& bucket) {
  if (!engine_->one_moment()) return list_keys(loop, bucket);
  const Model& model = bucket.history.model();
  Operation& operation = begin(bucket, {.kind = Kind::list});
  const s3::Call call = root_call();
  const auto page = run_on(loop, s3::list_objects(*server_->service, call, bucket.name, {}));
  if (!page) return answer_error(bucket, operation, page.error());
  judge_page(bucket, *page);
  operation.seen.resize(model.keys());
  for (size_t key = 0; key < model.keys(); ++key) {
    for (const store::ListEntry& entry : page->entries) {
      if (entry.key != model.key(key)) continue;
      const bool directory = bucket.kind == BucketKind::directory;
      operation.seen[key] = {directory ? static_cast<uint32_t>(entry.info.size) : values_.named(entry.info.etag)};
    }
  }
  answer(bucket, operation);
}

// A read of each key.
void World::list_keys(Loop& loop, Bucket& bucket) {
  if (bucket.kind == BucketKind::directory) return;
  const Model& model = bucket.history.model();
  std::vector<Operation*> reads;
  for (uint32_t key = 0; key < model.keys(); ++key) {
    reads.push_back(&begin(bucket, {.kind = Kind::read, .key = key, .seen = std::vector<std::vector<uint32_t>>(1)}));
  }
  const s3::Call call = root_call();
  const auto page = run_on(loop, s3::list_objects(*server_->service, call, bucket.name, {}));
  if (page) judge_page(bucket, *page);
  if (!page) note_failure("a listing", page.error() == Errc::slow_down ? "slow_down" : describe(page.error()));
  for (Operation* read : reads) {
    if (!page || page->truncated) {
      close(bucket, *read, 253);
      continue;
    }
    for (const store::ListEntry& entry : page->entries) {
      if (entry.key == model.key(read->key)) read->seen[0] = {values_.named(entry.info.etag)};
    }
    answer(bucket, *read);
  }
}

void World::list_versions(Loop& loop, Bucket& bucket) {
  const Model& model = bucket.history.model();
  Operation& operation = begin(bucket, {.kind = Kind::read_versions});
  const auto page = run_on(loop, server_->store->list_versions(bucket.name, {}));
  if (!page) return answer_error(bucket, operation, page.error());
  judge_page(bucket, *page);
  // Of a store that changes a page may end early: then it is not judged.
  if (page->truncated || !engine_->one_moment()) return close(bucket, operation, 253);
  operation.seen.resize(model.keys());
  for (size_t key = 0; key < model.keys(); ++key) {
    for (auto entry = page->versions.rbegin(); entry != page->versions.rend(); ++entry) {
      if (entry->key != model.key(key)) continue;
      operation.seen[key].push_back(entry->info.delete_marker ? 0 : values_.named(entry->info.etag));
    }
  }
  answer(bucket, operation);
}

}  // namespace verbena::simulator
