// Verbs that read, and what the oracle is told of the answers.
#include <fmt/format.h>

#include <set>

#include "s3/objects/read.h"
#include "simulator/server.h"
#include "store/list_sink.h"

namespace verbena::simulator {
namespace {

using Kind = Operation::Kind;
using Outcome = Operation::Outcome;

Task<Result<std::string>> read_part(std::shared_ptr<store::ObjectReader> reader, uint64_t from, uint64_t size) {
  std::string bytes;
  while (bytes.size() < size) {
    const size_t n = std::min<uint64_t>(size - bytes.size(), store::ObjectReader::chunk_size_max);
    VB_CO_ASSIGN(const memory::Chunk chunk, co_await reader->read(from + bytes.size(), n));
    bytes += as_text(chunk.bytes);
  }
  co_return bytes;
}

Version told_with(const store::ObjectInfo& info) {
  return {.tag = info.tags.empty() ? 0 : static_cast<uint32_t>(std::stoul(info.tags.front().second)),
          .hold = info.lock.legal_hold,
          .lock = static_cast<Lock>(info.lock.mode),
          .locked_until_ns = info.lock.retain_until_us * 1000};
}

// A page as a door gets it, name by name.
class PassedPage final : public store::ListSink {
 public:
  void restart() override { page_ = {}; }
  bool add(std::string_view key, const store::ListedHead& head) override {
    store::ListEntry& entry = page_.entries.emplace_back(store::ListEntry{.key = std::string(key), .info = {}});
    entry.info.size = head.size;
    entry.info.etag = head.etag;
    page_.next_after = key;
    return true;
  }
  bool add_prefix(std::string_view prefix) override {
    page_.common_prefixes.emplace_back(prefix);
    page_.next_after = prefix;
    return true;
  }
  store::ListPage take(bool truncated) {
    page_.truncated = truncated;
    return std::move(page_);
  }

 private:
  store::ListPage page_;
};

Result<store::ListPage> read_page(World::Loop& loop, World::Server& server, const std::string& bucket,
                                  store::ListRequest request) {
  const auto passed = std::make_shared<PassedPage>();
  request.sink = passed;
  const s3::Call call = root_call();
  const auto page = run_on(loop, s3::list_objects(*server.service, call, bucket, std::move(request)));
  if (!page) return std::unexpected(page.error());
  return passed->take(page->truncated);
}

// Of an object of a part or a range: all of its bytes that was asked for. `bytes`: the whole object's.
std::string_view wanted_of(std::string_view bytes, const s3::GetRequest& request, const Values& values, uint32_t value,
                           const std::string& etag) {
  if (request.range && request.range->suffix) {
    return bytes.substr(bytes.size() - std::min<uint64_t>(*request.range->suffix, bytes.size()));
  }
  if (request.range) {
    return bytes.substr(*request.range->first, request.range->last.value_or(bytes.size()) - *request.range->first + 1);
  }
  if (!request.part_number || etag == values.plain_etag(value)) return bytes;
  size_t at = 0;
  for (const Values::Part& part : values.parts(value)) {
    const size_t size = values.size(part.value);
    if (part.number == *request.part_number) return bytes.substr(at, size);
    at += size;
  }
  return bytes;
}

}  // namespace

bool World::recognize(const Bucket& bucket, std::string_view bytes, const std::string& etag,
                      std::vector<uint32_t>& seen) const {
  if (bucket.kind == BucketKind::directory) return values_.split(std::string(bytes), seen);
  return values_.recognize(etag, bytes, seen.emplace_back());
}

// Sometimes of a part, or of a range; in a directory bucket the whole, where a tag does not say what it is.
s3::GetRequest World::draw_get(const Bucket& bucket, uint32_t key) {
  s3::GetRequest request{.bucket = bucket.name,
                         .key = bucket.history.model().key(key),
                         .range = {},
                         .part_number = {},
                         .preconditions = {}};
  if (bucket.kind == BucketKind::directory) return request;
  const uint64_t choice = draw(24);
  if (choice < 3) request.part_number = 1 + static_cast<int>(draw(3));
  if (choice < 3 || choice > 5) return request;
  s3::ByteRange& range = request.range.emplace();
  if (choice == 3) {
    range.suffix = 1 + draw(400);
  } else {
    range.first = draw(choice == 4 ? 400 : 6000);
    if (choice == 5) range.last = *range.first + draw(6000);
  }
  return request;
}

void World::get(Loop& loop, Bucket& bucket, uint32_t key) {
  Operation& operation = begin(bucket, {.kind = Kind::read, .key = key, .seen = {{}}});
  const s3::Call call = root_call();
  const s3::GetRequest request = draw_get(bucket, key);
  auto opened = run_on(loop, s3::open_object(*server_->service, call, request));
  if (!opened && opened.error() == Errc::no_such_key) return answer(bucket, operation);
  if (!opened && opened.error() == Errc::invalid_part_number && request.part_number) {
    operation.condition = Operation::If::lacks_part;
    operation.expected = static_cast<uint64_t>(*request.part_number);
    return answer(bucket, operation, Outcome::refused);
  }
  if (!opened && opened.error() == Errc::invalid_range && request.range && request.range->first) {
    operation.condition = Operation::If::smaller;
    operation.expected = *request.range->first;
    return answer(bucket, operation, Outcome::refused);
  }
  if (!opened) return answer_error(bucket, operation, opened.error());
  const auto bytes = run_on(loop, read_part(opened->reader, opened->offset, opened->length));
  if (!bytes) return answer_error(bucket, operation, bytes.error());
  if (request.range || request.part_number) {
    judge_part(bucket, request, opened->info().etag, *bytes, operation);
  } else if (!recognize(bucket, *bytes, opened->info().etag, operation.seen[0])) {
    fail_with(fmt::format("{}/{}: wrong bytes", bucket.name, request.key));
  }
  if (bucket.kind != BucketKind::directory) {
    operation.seen_with = told_with(opened->info());
    if (values_.has_one_etag(operation.seen[0][0])) bucket.last[key] = operation.seen[0][0];
  }
  answer(bucket, operation);
}

void World::judge_part(const Bucket& bucket, const s3::GetRequest& request, const std::string& etag,
                       const std::string& bytes, Operation& operation) {
  const uint32_t value = values_.named(etag);
  operation.seen[0] = {value};
  const bool from_within = !request.range || !request.range->first || *request.range->first < values_.size(value);
  if (value != 0 && from_within && wanted_of(values_.bytes(value), request, values_, value, etag) == bytes) return;
  fail_with(
      fmt::format("{}/{}: {} wrong bytes of a part or a range of {}", bucket.name, request.key, bytes.size(), value));
}

// The tags of the current object, which nothing else says of a bucket without versions.
void World::read_tag(Loop& loop, Bucket& bucket, uint32_t key) {
  Operation& operation = begin(bucket, {.kind = Kind::read_tag, .key = key, .seen = {{}}});
  const Reply reply =
      ask(loop, "GET", fmt::format("/{}/{}?tagging", bucket.name, bucket.history.model().key(operation.key)));
  if (reply.ok()) {
    const std::string tag = reply.element("Value");
    operation.seen_with = Version{.tag = tag.empty() ? 0 : static_cast<uint32_t>(std::stoul(tag))};
    return answer(bucket, operation);
  }
  if (reply.code == "NoSuchKey" || reply.code == "MethodNotAllowed") {
    return answer(bucket, operation, Outcome::missing);
  }
  answer_error(bucket, operation, reply);
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
    operation.seen_with = told_with(*info);
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
  const auto bytes = run_on(loop, read_part(opened->reader, 0, opened->info().size));
  if (!bytes) return answer_error(bucket, operation, bytes.error());
  operation.seen_with = told_with(opened->info());
  if (!recognize(bucket, *bytes, opened->info().etag, operation.seen[0])) {
    fail_with(fmt::format("{}/{}: wrong bytes of version {}", bucket.name, request.key, known.id));
  }
  answer(bucket, operation);
}

// Nothing that was never put or not asked for, nothing twice, and no more than was asked for.
void World::judge_page(const Bucket& bucket, const store::ListRequest& request, const store::ListPage& page) {
  const Model& model = bucket.history.model();
  const std::string* last = &request.after;
  const auto wrong = [&](const std::string& name, std::string_view what) {
    fail_with(fmt::format("{}: a listing after {} with the prefix {} and the delimiter {} has {}: {}", bucket.name,
                          request.after, request.prefix, request.delimiter, name, what));
  };
  const auto folds = [&](const std::string& key) {
    return !request.delimiter.empty() && key.find(request.delimiter, request.prefix.size()) != std::string::npos;
  };
  for (const store::ListEntry& entry : page.entries) {
    if (!model.has_key(entry.key)) wrong(entry.key, "a key that was never put");
    if (*last >= entry.key) wrong(entry.key, "after " + *last);
    if (!entry.key.starts_with(request.prefix)) wrong(entry.key, "without the prefix");
    if (folds(entry.key)) wrong(entry.key, "which is in a folder");
    last = &entry.key;
  }
  for (const std::string& folder : page.common_prefixes) {
    if (!model.has_key(folder) || !folds(folder) || folder <= request.after) wrong(folder, "no folder");
  }
  const size_t count = page.entries.size() + page.common_prefixes.size();
  if (count > static_cast<size_t>(request.max_keys) || (page.truncated && count == 0)) {
    wrong(page.next_after, fmt::format("{} of at most {}", count, request.max_keys));
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

// Whole, or by pages of one or two, of which each is a moment of its own. A folder is a key with all before it: keys
// have a digit each, which then is the delimiter.
store::ListRequest World::draw_listing(const Model& model) {
  store::ListRequest request{};
  if (draw(3) != 0) return request;
  if (draw(2) == 0) request.max_keys = 1 + static_cast<int>(draw(2));
  if (draw(3) == 0) request.after = model.key(draw(model.keys()));
  if (draw(3) == 0) request.delimiter = model.key(draw(model.keys())).back();
  if (draw(8) == 0) request.prefix = model.key(draw(model.keys()));
  return request;
}

void World::list(Loop& loop, Bucket& bucket) {
  if (!engine_->one_moment()) return list_keys(loop, bucket);
  store::ListRequest request = draw_listing(bucket.history.model());
  while (list_page(loop, bucket, request) && bucket.history.has_room()) {
  }
}

// Whether another one follows, which `request` then asks for.
bool World::list_page(Loop& loop, Bucket& bucket, store::ListRequest& request) {
  const Model& model = bucket.history.model();
  Operation& operation = begin(bucket, {.kind = Kind::list});
  const auto page = read_page(loop, *server_, bucket.name, request);
  if (!page) {
    answer_error(bucket, operation, page.error());
    return false;
  }
  judge_page(bucket, request, *page);
  operation.seen.resize(model.keys());
  for (size_t key = 0; key < model.keys(); ++key) {
    const std::string& name = model.key(key);
    const bool is_before = name <= request.after, is_behind = page->truncated && name > page->next_after;
    if (is_before || is_behind || !name.starts_with(request.prefix)) operation.seen[key] = {Operation::not_looked_at};
    if (std::ranges::find(page->common_prefixes, name) != page->common_prefixes.end()) {
      operation.seen[key] = {Operation::something};
    }
    for (const store::ListEntry& entry : page->entries) {
      if (entry.key != name) continue;
      const bool directory = bucket.kind == BucketKind::directory;
      operation.seen[key] = {directory ? static_cast<uint32_t>(entry.info.size) : values_.named(entry.info.etag)};
    }
  }
  answer(bucket, operation);
  request.after = page->next_after;
  return page->truncated;
}

// A read of each key.
void World::list_keys(Loop& loop, Bucket& bucket) {
  if (bucket.kind == BucketKind::directory) return;
  const Model& model = bucket.history.model();
  std::vector<Operation*> reads;
  for (uint32_t key = 0; key < model.keys(); ++key) {
    reads.push_back(&begin(bucket, {.kind = Kind::read, .key = key, .seen = std::vector<std::vector<uint32_t>>(1)}));
  }
  const auto page = read_page(loop, *server_, bucket.name, {});
  if (page) judge_page(bucket, {}, *page);
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
