#include "store/logic/transfer.h"

#include <algorithm>

#include "base/several.h"
#include "store/logic/ends.h"
#include "store/logic/keys.h"
#include "store/logic/object_ops.h"
#include "store/logic/usage.h"
#include "store/removal_grounds.h"

namespace verbena::store {
namespace {

constexpr size_t page_keys = 1000;
constexpr const char* changed_since =
    "it was changed after an earlier run was interrupted, and changes are not overwritten: undo the change, or remove "
    "the bucket there";

// The document of an incomplete bucket: all keys below this one were copied. One that is missing later was removed.
std::string mark_of(std::string_view done_below) { return "1" + std::string(done_below); }

Task<Result<KeyRows>> rows_of(std::shared_ptr<Context> context, uint64_t bucket, std::string key) {
  auto look = [bucket, key](View& rows) { return read_key(rows, bucket, key); };
  co_return co_await look_up(*context->rows, "copying a store", Place{bucket, key}, std::move(look));
}

Task<Result<KeyPage>> keys_of(std::shared_ptr<Context> context, uint64_t bucket, std::string from) {
  auto look = [bucket, from](View& rows) { return list_keys(rows, bucket, from, page_keys); };
  co_return co_await look_up(*context->rows, "copying a store", Place{bucket}, std::move(look));
}

// True if the bucket has a document or a key.
Task<Result<bool>> is_used(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket) {
  if (!bucket->documents.names().empty()) co_return true;
  VB_CO_ASSIGN(const KeyPage page, co_await keys_of(context, bucket->id, ""));
  co_return !page.keys.empty();
}

bool same(const BucketInfo& a, const BucketInfo& b) {
  return a.created_us == b.created_us && a.owner == b.owner && a.durability == b.durability &&
         a.versioning == b.versioning && a.lock == b.lock;
}

// Whether the bucket was copied from that one, whatever changed since.
bool same_origin(const BucketInfo& a, const BucketInfo& b) {
  return a.created_us == b.created_us && a.owner == b.owner;
}

void put_head(Transaction& transaction, uint64_t bucket, std::string_view key, const ObjectRecord& record, bool current,
              bool null) {
  transaction.take_id(record.id);
  if (current) {
    transaction.put(Table::objects, keys::object(bucket, key), encode(record));
    move_end(transaction, bucket, key, nullptr, &record.info);
    transaction.count(as_current(record));
    return;
  }
  transaction.put(Table::versions, keys::version(bucket, key, record.id), encode(record));
  if (null) transaction.put(Table::uploads, keys::null_version(bucket, key), keys::number(record.id));
  transaction.count(as_version(record));
}

Result<void> clear_parts(Transaction& transaction, uint64_t of) {
  const auto cursor = transaction.cursor(Table::uploads, keys::part_prefix(of));
  std::vector<std::string> gone;
  for (; cursor->valid(); cursor->next()) {
    VB_ASSIGN(const StoredPart part, decode_part(cursor->value()));
    transaction.kill(part.blob);
    gone.emplace_back(cursor->key());
  }
  VB_TRY(cursor->status());
  for (const std::string& row : gone) transaction.erase(Table::uploads, row);
  return {};
}

void clear_version(Transaction& transaction, const KeyRows::Version& version) {
  if (version.record.part_count == 0) return transaction.kill(version.record.blob);
  for (const StoredPart& part : version.parts) transaction.kill(part.blob);
  transaction.erase(Table::uploads, keys::object_parts(version.record.id));
}

// Removes all rows of a key as they were read, and parts that were copied for versions which do not exist yet.
Result<void> clear(Transaction& transaction, uint64_t bucket, const std::string& key, const KeyRows& rows,
                   const std::vector<uint64_t>& begun) {
  for (const uint64_t of : begun) VB_TRY(clear_parts(transaction, of));
  if (rows.current) {
    clear_version(transaction, *rows.current);
    transaction.erase(Table::objects, keys::object(bucket, key));
    move_end(transaction, bucket, key, &rows.current->record.info, nullptr);
    transaction.count(-as_current(rows.current->record));
  }
  for (const KeyRows::Version& version : rows.older) {
    clear_version(transaction, version);
    transaction.erase(Table::versions, keys::version(bucket, key, version.record.id));
    transaction.count(-as_version(version.record));
  }
  if (rows.null_version) transaction.erase(Table::uploads, keys::null_version(bucket, key));
  for (const KeyRows::Upload& upload : rows.uploads) {
    VB_TRY(clear_parts(transaction, upload.record.id));
    transaction.erase(Table::uploads, keys::upload(bucket, key, upload.record.info.upload_id));
    Usage gone{.uploads = 1};
    for (const StoredPart& part : upload.parts) gone += as_parts(part.info.size);
    transaction.count(-gone);
  }
  return {};
}

// Before any row of the key is written: an upload that has a TTL could never be completed there.
Result<void> check_ends(const Bucket& target, const KeyRows& rows) {
  if (target.takes_ends()) return {};
  const auto ends = [](const KeyRows::Version& version) { return end_us_of(version.record.info) != 0; };
  const auto will_end = [](const KeyRows::Upload& upload) {
    return std::ranges::any_of(upload.record.info.headers, [](const auto& h) { return h.first == ttl_header; });
  };
  const bool any = (rows.current && ends(*rows.current)) || std::ranges::any_of(rows.older, ends) ||
                   std::ranges::any_of(rows.uploads, will_end);
  if (!any) return {};
  return fail(Errc::not_implemented,
              "the other store does not keep ends of objects (x-verbena-ttl): remove it, or end its uploads");
}

}  // namespace

Task<Result<TransferCounts>> Transfer::run() {
  VB_CO_ASSIGN(const auto buckets, co_await source_.store.buckets());
  VB_CO_TRY(check_source(buckets));
  VB_CO_TRY(check_target(buckets));
  for (const BucketInfo& info : buckets) {
    where_ = info.name;
    Pair pair;
    VB_CO_ASSIGN(const BucketState state, co_await begin_bucket(info, pair));
    if (state == BucketState::completed_earlier) {
      ++counts_.buckets_there;
      continue;
    }
    VB_CO_TRY(co_await copy_bucket(pair));
    ++counts_.buckets;
    options_.tell(info.name, counts_);
  }
  VB_CO_TRY(co_await target_.context->rows->sync());
  co_return counts_;
}

// Refuses incomplete buckets, whose copies would look complete, and bounded ones that would grow without their bound.
Result<void> Transfer::check_source(const std::vector<BucketInfo>& buckets) {
  for (const BucketInfo& info : buckets) {
    where_ = info.name;
    VB_ASSIGN(const auto bucket, source_.context->known_bucket(info.name));
    const auto names = bucket->documents.names();
    const auto has = [&names](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
    if (has(unfinished_mark)) {
      return fail(Errc::conditional_conflict, "it is incomplete: the import that began it must be completed first");
    }
    if (!options_.keeps_bounds && has(bounding_document)) {
      return fail(Errc::not_implemented,
                  "it is bounded, and the other store's servers evict nothing: remove its bound (?verbena-bound)");
    }
  }
  return {};
}

// All refusals come before any change.
Result<void> Transfer::check_target(const std::vector<BucketInfo>& buckets) {
  for (const BucketInfo& there : target_.context->buckets.list()) {
    where_ = there.name;
    const auto info = std::ranges::find(buckets, there.name, &BucketInfo::name);
    if (info != buckets.end() && !same_origin(there, *info)) {
      return fail(Errc::bucket_already_exists, "a bucket of the same name is there, and did not come from here");
    }
    if (info == buckets.end() && options_.look_again) {
      return fail(Errc::bucket_already_exists, "an earlier run copied it, and it was removed since: begin anew");
    }
  }
  return {};
}

Task<Result<Transfer::BucketState>> Transfer::begin_bucket(BucketInfo info, Pair& pair) {
  VB_CO_BUCKET(auto from, source_.context, info.name);
  std::string mark = mark_of("");
  if (const auto there = target_.context->buckets.find(info.name)) {
    const auto found = co_await target_.store.document(info.name, unfinished_mark);
    if (!found && !(found.error() == Errc::not_found)) co_return std::unexpected(found.error());
    if (!found && !options_.look_again) {
      VB_CO_ASSIGN(const bool has_anything, co_await is_used(target_.context, there));
      VB_CO_ASSIGN(const bool wants_anything, co_await is_used(source_.context, from));
      if (has_anything || !wants_anything) co_return BucketState::completed_earlier;
      // An earlier run ended between creating the bucket and marking it.
    }
    if (found) mark = **found;
    if (!same(there->info(), info)) {
      co_return fail(Errc::bucket_already_exists, "a bucket that an earlier run began has been changed since");
    }
  } else {
    VB_CO_TRY(co_await target_.store.create_bucket(info));
  }
  std::string done = mark.substr(std::min(mark.size(), mark_of("").size()));
  VB_CO_TRY(co_await target_.store.set_document(info.name, unfinished_mark, std::move(mark)));
  VB_CO_BUCKET(auto to, target_.context, info.name);
  pair = {std::move(from), std::move(to), std::move(done)};
  co_return BucketState::to_copy;
}

Task<Result<void>> Transfer::copy_bucket(Pair pair) {
  VB_CO_TRY(co_await copy_documents(pair));
  VB_CO_TRY(co_await copy_keys(pair));
  VB_CO_TRY(co_await check_usage(pair.source->name));
  co_return co_await target_.store.remove_document(pair.target->name, unfinished_mark);
}

Task<Result<void>> Transfer::copy_documents(Pair pair) {
  const auto wanted = pair.source->documents.names();
  for (const std::string& name : pair.target->documents.names()) {
    if (name == unfinished_mark || std::ranges::find(wanted, name) != wanted.end()) continue;
    if (!options_.look_again) co_return fail(Errc::conditional_conflict, changed_since);
    VB_CO_TRY(co_await target_.store.remove_document(pair.target->name, name));
  }
  for (const std::string& name : wanted) VB_CO_TRY(co_await copy_document(pair, name));
  co_return Result<void>{};
}

Task<Result<void>> Transfer::copy_document(Pair pair, std::string name) {
  VB_CO_ASSIGN(const Document document, co_await source_.store.document(pair.source->name, name));
  const auto there = co_await target_.store.document(pair.target->name, name);
  if (!there && !(there.error() == Errc::not_found)) co_return std::unexpected(there.error());
  if (there && **there == *document) co_return Result<void>{};
  // Documents are copied before the first key: one that is missing later was removed by another client.
  if (!options_.look_again && (there || !pair.done.empty())) co_return fail(Errc::conditional_conflict, changed_since);
  co_return co_await target_.store.set_document(pair.target->name, name, *document);
}

// Compares the usage counted with each change to the source's: detects rows that this code forgot.
Task<Result<void>> Transfer::check_usage(const std::string& bucket) {
  const std::string name = bucket;
  const auto from = co_await source_.store.bucket_usage(name);
  const auto to = co_await target_.store.bucket_usage(name);
  if (!from || !to) co_return Result<void>{};  // it is still being counted
  if (*from == *to) co_return Result<void>{};
  co_return fail(Errc::corrupt_object, "a bucket holds something else than the one it was copied from");
}

Task<Result<KeyPage>> Transfer::next_keys(Pair pair, std::string from) {
  VB_CO_ASSIGN(KeyPage page, co_await keys_of(source_.context, pair.source->id, from));
  VB_CO_ASSIGN(const KeyPage there, co_await keys_of(target_.context, pair.target->id, from));
  // Keys past the end of either page come with the next one.
  const auto cut = [&page, &there](const std::string& key) {
    return (page.more && key > page.keys.back()) || (there.more && key > there.keys.back());
  };
  KeyPage both{{}, page.more || there.more};
  std::ranges::set_union(page.keys, there.keys, std::back_inserter(both.keys));
  std::erase_if(both.keys, cut);
  co_return both;
}

// State that the workers of one bucket share. Used on one executor.
struct Transfer::Work {
  Pair pair{};
  std::vector<std::string> keys{};  // from the end
  std::optional<Error> error{};
};

Task<> Transfer::worker(std::shared_ptr<Work> work) {
  while (!work->error && !work->keys.empty()) {
    std::string key = std::move(work->keys.back());
    work->keys.pop_back();
    auto done = co_await copy_key(work->pair, key);
    if (!done && !work->error) {
      work->error = done.error();
      where_ = work->pair.source->name + "/" + key;
    }
    options_.tell(work->pair.source->name, counts_);
  }
}

Task<Result<void>> Transfer::copy_keys(Pair pair) {
  for (std::string from;;) {
    VB_CO_ASSIGN(KeyPage page, co_await next_keys(pair, from));
    if (page.keys.empty()) co_return Result<void>{};
    from = page.keys.back() + '\0';
    const auto work = std::make_shared<Work>();
    work->pair = pair;
    std::ranges::reverse(page.keys);
    work->keys = std::move(page.keys);
    const auto copy_some = [this, work] { return worker(work); };
    co_await run_several(std::min(options_.keys_at_once, work->keys.size()), copy_some);
    if (work->error) co_return std::unexpected(*work->error);
    if (!page.more) co_return Result<void>{};
    if (from <= pair.done) continue;
    VB_CO_TRY(co_await target_.store.set_document(pair.target->name, unfinished_mark, mark_of(from)));
  }
}

Result<void> Transfer::check_keys(const Pair& pair, const std::string& key, const KeyRows& wanted,
                                  const KeyRows& there) {
  const auto is_other = [this](uint64_t id) { return !with_parts_.insert(id).second; };
  bool same_id = false;
  const auto look = [&](const KeyRows::Version& version) {
    if (version.record.part_count != 0) same_id |= is_other(version.record.id);
  };
  if (wanted.current) look(*wanted.current);
  std::ranges::for_each(wanted.older, look);
  for (const KeyRows::Upload& upload : wanted.uploads) same_id |= is_other(upload.record.id);
  // Engines with store-wide ids name lists of parts by the id alone: two objects with one id would share a list.
  if (same_id) {
    return fail(Errc::conditional_conflict,
                "its parts have the id of another one's, which came from another directory: copy the object onto "
                "itself, or end the upload, and try again");
  }
  if (options_.look_again) return {};
  const bool has_come = wanted.shape() == there.shape();
  const bool may_be_missing = key >= pair.done;
  if (has_come || (may_be_missing && there.is_part_of(wanted))) return {};
  return fail(Errc::conditional_conflict, changed_since);
}

Task<Result<void>> Transfer::copy_key(Pair pair, std::string key) {
  VB_CO_ASSIGN(KeyRows wanted, co_await rows_of(source_.context, pair.source->id, key));
  VB_CO_ASSIGN(KeyRows there, co_await rows_of(target_.context, pair.target->id, key));
  counts_.id_max = std::max(counts_.id_max, wanted.id_max());
  VB_CO_TRY(check_keys(pair, key, wanted, there));
  VB_CO_TRY(check_ends(*pair.target, wanted));
  if (wanted.shape() == there.shape() && !wanted.empty()) {
    ++counts_.keys_there;
    co_return Result<void>{};
  }
  std::vector<uint64_t> begun;
  const auto has_parts = [&begun](const KeyRows::Version& version) {
    if (version.record.part_count != 0) begun.push_back(version.record.id);
  };
  if (wanted.current) has_parts(*wanted.current);
  std::ranges::for_each(wanted.older, has_parts);
  if (!there.empty() || !begun.empty()) VB_CO_TRY(co_await clear_key(pair.target, key, std::move(there), begun));
  // Oldest first, the current one last: every intermediate state of the key existed once.
  for (auto version = wanted.older.rbegin(); version != wanted.older.rend(); ++version) {
    const bool null = wanted.null_version == version->record.id;
    VB_CO_TRY(co_await copy_version(pair, key, std::move(*version), /*current=*/false, null));
  }
  if (wanted.current) {
    VB_CO_TRY(co_await copy_version(pair, key, std::move(*wanted.current), /*current=*/true, /*null=*/false));
  }
  for (KeyRows::Upload& upload : wanted.uploads) {
    VB_CO_TRY(co_await copy_upload(pair, key, std::move(upload)));
  }
  ++counts_.keys;
  co_return Result<void>{};
}

Task<Result<void>> Transfer::clear_key(BucketRef bucket, std::string key, KeyRows rows, std::vector<uint64_t> begun) {
  const uint64_t id = bucket->id;
  Judge judge = [id, key, rows = std::move(rows), begun = std::move(begun)](Transaction& transaction) {
    return clear(transaction, id, key, rows, begun);
  };
  co_return co_await commit(std::move(bucket), std::move(key), std::move(judge));
}

Task<Result<void>> Transfer::copy_version(Pair pair, std::string key, KeyRows::Version version, bool current,
                                          bool null) {
  const uint64_t bucket = pair.target->id;
  ++counts_.versions;
  if (version.record.part_count == 0) {
    Put put = [bucket, key, record = version.record, current, null](Transaction& transaction, const BlobRef& blob) {
      ObjectRecord placed = record;
      placed.blob = blob;
      put_head(transaction, bucket, key, placed, current, null);
      return Result<void>{};
    };
    VB_CO_TRY(co_await copy_bytes(pair, key, version.record.blob, std::move(put)));
    co_return Result<void>{};
  }
  // First the parts by themselves, as those of an invisible upload, then everything in one change.
  const uint64_t of = version.record.id;
  int number = 0;
  for (StoredPart& part : version.parts) {
    const std::string row = keys::part(of, ++number);
    Put put = [row, part](Transaction& transaction, const BlobRef& blob) {
      transaction.put(Table::uploads, row, encode(StoredPart{part.info, blob}));
      return Result<void>{};
    };
    VB_CO_ASSIGN(part.blob, co_await copy_bytes(pair, key, part.blob, std::move(put)));
  }
  Judge judge = [=, version = std::move(version)](Transaction& transaction) {
    for (int i = 1; i <= number; ++i) transaction.erase(Table::uploads, keys::part(of, i));
    transaction.put(Table::uploads, keys::object_parts(of), encode(version.parts));
    put_head(transaction, bucket, key, version.record, current, null);
    return Result<void>{};
  };
  co_return co_await commit(pair.target, std::move(key), std::move(judge));
}

Task<Result<void>> Transfer::copy_upload(Pair pair, std::string key, KeyRows::Upload upload) {
  const uint64_t bucket = pair.target->id;
  ++counts_.uploads;
  Judge judge = [bucket, key, record = upload.record](Transaction& transaction) {
    transaction.take_id(record.id);
    transaction.put(Table::uploads, keys::upload(bucket, key, record.info.upload_id), encode(record));
    transaction.count({.uploads = 1});
    return Result<void>{};
  };
  VB_CO_TRY(co_await commit(pair.target, key, std::move(judge)));
  for (const StoredPart& part : upload.parts) {
    const std::string row = keys::part(upload.record.id, part.info.number);
    Put put = [row, part](Transaction& transaction, const BlobRef& blob) {
      transaction.put(Table::uploads, row, encode(StoredPart{part.info, blob}));
      transaction.count(as_parts(part.info.size));
      return Result<void>{};
    };
    VB_CO_TRY(co_await copy_bytes(pair, key, part.blob, std::move(put)));
  }
  co_return Result<void>{};
}

Task<Result<BlobRef>> Transfer::copy_bytes(Pair pair, std::string key, BlobRef from, Put put) {
  std::shared_ptr<BlobWriter> writer;
  BlobRef to;
  if (from.size != 0) {
    const std::string name = pair.source->name + "/" + key;
    auto look = [this, name, from](View& rows) -> Result<std::shared_ptr<ObjectReader>> {
      ObjectInfo info;
      info.size = from.size;
      const BlobRef blobs[] = {from};
      return source_.context->blobs->open(rows, name, info, blobs);
    };
    VB_CO_ASSIGN(const auto reader, co_await look_up(*source_.context->rows, "copying a store",
                                                     Place{pair.source->id, key}, std::move(look)));
    if (!reader) co_return fail(Errc::corrupt_object, "bytes are missing");
    writer = target_.context->blobs->create(*pair.target, from.size);
    for (uint64_t at = 0; at < from.size;) {
      const size_t n = std::min<uint64_t>(from.size - at, ObjectReader::chunk_size_max);
      VB_CO_ASSIGN(memory::Chunk chunk, co_await reader->read(at, n));
      VB_CO_TRY(co_await writer->append(std::move(chunk)));
      at += n;
      counts_.bytes += n;
    }
    VB_CO_ASSIGN(to, co_await writer->finish());
  }
  Judge judge = [put = std::move(put), to](Transaction& transaction) { return put(transaction, to); };
  VB_CO_TRY(co_await commit(pair.target, std::move(key), std::move(judge), std::move(writer)));
  co_return to;
}

Task<Result<void>> Transfer::commit(BucketRef bucket, std::string key, Judge judge, std::shared_ptr<BlobWriter> blob) {
  // Some engines count ids per place: the judge registers copied ids there (Transaction::take_id()).
  Change change{.judge = std::move(judge),
                .bucket = bucket,
                .place = {bucket->id, key},
                .blob = std::move(blob),
                .takes_space = true};
  co_return co_await target_.context->rows->commit(std::move(change));
}

}  // namespace verbena::store
