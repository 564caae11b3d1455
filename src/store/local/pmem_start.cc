// Start and end of the log on persistent memory. The index names the log that may have objects which it does not have
// itself. A start without that log is refused, and so is one with the log of another store; an orderly stop that left
// nothing there removes the name.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <latch>
#include <map>
#include <span>

#include "base/bytes.h"
#include "base/log.h"
#include "store/local/blob_writer.h"
#include "store/local/engine.h"
#include "store/local/pmem_log.h"
#include "store/local/write_behind.h"
#include "store/logic/damage.h"
#include "store/logic/object_ops.h"

namespace verbena::store::local {
namespace {

uint64_t new_log_id() {
  uint64_t id = 0;
  fill_random(std::as_writable_bytes(std::span(&id, 1)));
  return id & ~(cache_line - 1);
}

Result<std::optional<uint64_t>> log_id_in(Index& index, const std::string& key) {
  const auto row = index.get(Family::meta, key);
  if (!row && row.error() == Errc::not_found) return std::nullopt;
  if (!row) return std::unexpected(row.error());
  uint64_t id = 0;
  const auto [end, ec] = std::from_chars(row->data(), row->data() + row->size(), id);
  if (ec != std::errc()) return fail(Errc::corrupt_object, "store: record of the log on persistent memory");
  return id;
}

// The logs that have nothing of this store, whatever can be read there: the one that was over last, and while one is
// made instead, that one before it. An older program reads the first.
Result<std::vector<uint64_t>> logs_over(Index& index) {
  const auto row = index.get(Family::meta, keys::pmem_over());
  if (!row && row.error() == Errc::not_found) return std::vector<uint64_t>();
  if (!row) return std::unexpected(row.error());
  std::vector<uint64_t> ids;
  const char* const end = row->data() + row->size();
  for (const char* at = row->data();;) {
    uint64_t id = 0;
    const auto [next, ec] = std::from_chars(at, end, id);
    if (ec != std::errc()) return fail(Errc::corrupt_object, "store: record of the logs on persistent memory");
    ids.push_back(id);
    if (next == end) return ids;
    at = next + 1;
  }
}

bool contains(const std::vector<uint64_t>& ids, std::optional<uint64_t> id) {
  return id && std::ranges::find(ids, *id) != ids.end();
}

// Whether a node has the log of another store that did not give it back. The lock of a node does not reach into every
// container (dax_node.h); a file's does.
Result<bool> is_anothers(Index& index, const PmemLog& log) {
  std::string unused;
  const auto id = log.id(unused);
  if (!log.place().is_node || !id || !*id || !log.is_held(**id)) return false;
  VB_ASSIGN(const auto wanted, log_id_in(index, keys::pmem_log()));
  VB_ASSIGN(const auto over, logs_over(index));
  return *id != wanted && !contains(over, *id);
}

// accept_data_loss says nothing of another store's objects.
std::string held_words(const PmemLog& log) {
  return "the log on persistent memory is that of another store, which is running, or was not stopped in order" +
         log.place().named() + ". Objects of that store may be there alone. No object was changed, also not with " +
         "accept_data_loss. " + log.place().another_log_advice();
}

// Before format(): a start that ends early leaves the new log or the one that was there, and neither is another
// store's.
Result<void> announce_log(Index& index, const PmemLog& log, uint64_t id) {
  std::string unused;
  const auto there = log.id(unused);
  VB_ASSIGN(const auto over, logs_over(index));
  std::string row = std::to_string(id);
  if (there && contains(over, *there)) row += " " + std::to_string(**there);
  Batch batch(index);
  batch.put(Family::meta, keys::pmem_over(), row);
  VB_TRY(index.write(batch));
  return index.sync();
}

// An object that the log has acknowledged and cannot give.
struct Lost {
  uint64_t place = 0;
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  ObjectInfo info;
  uint64_t stored_size = 0;
  bool has_head = true;
  WrittenBlob blob;
  Result<void> outcome{};
  bool has_unreadable_row = false;  // the key's own, in the index
};

// An empty object has its blob, too, so that it cannot be read: its head is what was lost.
Result<std::shared_ptr<Lost>> lost_object(PmemLog::Found found, std::shared_ptr<const Bucket> bucket, uint64_t blob) {
  auto lost = std::make_shared<Lost>();
  lost->place = found.place;
  lost->bucket = std::move(bucket);
  lost->key = std::move(found.key);
  lost->stored_size = found.size;
  lost->has_head = !found.head.empty();
  if (!lost->has_head) {
    lost->info.etag = std::string(32, '0');  // of no object
    lost->info.size = found.size;
  } else {
    VB_ASSIGN(ObjectRecord record, decode_object(found.head));
    lost->info = std::move(record.info);
  }
  lost->info.modified_us = found.time_us;
  lost->blob.ref = {.kind = BlobKind::in_index, .id = blob, .size = std::max<uint64_t>(found.size, 1)};
  lost->blob.in_index = encode_lost_inline();
  return lost;
}

// Where the head is damaged, time and size tell: the index keeps the time, unless the key had a later one.
bool is_lost_one(const ObjectInfo& stored, const Lost& lost) {
  if (lost.has_head) return is_acknowledged_one(stored, lost.info);
  return stored.modified_us == lost.info.modified_us ||
         (stored.modified_us > lost.info.modified_us && stored_size(stored) == lost.stored_size);
}

// Parts whose list cannot be read cannot be freed with their object. That must not keep the object: its key has another
// one. `verbena fsck` finds their bytes.
void leave_unreadable_parts(Transaction& transaction, std::optional<ObjectRecord>& current) {
  if (!current || current->part_count == 0) return;
  const auto parts = object_parts(transaction, *current);
  if (parts || !(is_damage(parts.error()) || parts.error() == Errc::not_found)) return;
  transaction.erase(Table::uploads, keys::object_parts(current->id));
  current->part_count = 0;
}

// What the index has already is not lost.
Result<void> put_lost(Transaction& transaction, Lost& lost) {
  VB_ASSIGN(const BucketRecord bucket, check_bucket(transaction, *lost.bucket));
  auto found = find_object(transaction, *lost.bucket, lost.key);
  lost.has_unreadable_row = !found && is_damage(found.error());
  VB_ASSIGN(auto current, std::move(found));
  if (current && is_lost_one(current->info, lost)) return {};
  if (bucket.info.versioning == Versioning::off) leave_unreadable_parts(transaction, current);
  VB_TRY(replace_current(transaction, *lost.bucket, bucket, lost.key, current, lost.info, lost.blob.ref,
                         lost.info.modified_us, End::as_told));
  add_blob(static_cast<IndexTransaction&>(transaction).batch(), lost.blob);
  log::error(
      "store: {}/{} was acknowledged, and is damaged in the log on persistent memory. It answers corrupt_object until "
      "it is overwritten or removed",
      lost.bucket->name, log::printable(lost.key));
  return {};
}

// Durable afterwards, or refused: `outcome`.
void commit_lost(Committer& committer, std::span<const std::shared_ptr<Lost>> objects) {
  const auto left = std::make_shared<std::latch>(static_cast<ptrdiff_t>(objects.size()));
  for (const auto& lost : objects) {
    Mutation mutation;
    mutation.judge = [lost](Transaction& transaction) { return put_lost(transaction, *lost); };
    mutation.bucket = lost->bucket;
    committer.submit(std::move(mutation), [lost, left](const Result<void>& outcome) {
      lost->outcome = outcome;
      left->count_down();
    });
  }
  left->wait();
}

}  // namespace

std::unexpected<Error> Engine::refuse_pmem(std::string sentence) const {
  return refuse(
      std::move(sentence) +
      ". Objects that were acknowledged may be there and nowhere else. No object was changed. Mount what held "
      "it, or go on without it: accept_data_loss.");
}

// The index names no log: no object of this store is there.
std::unexpected<Error> Engine::refuse_unneeded_pmem(std::string sentence) const {
  return refuse(std::move(sentence) +
                ". No object of this store is there alone, but another store's may be. No object was changed. " +
                pmem->place().another_log_advice() + ", or overwrite it: accept_data_loss.");
}

std::unexpected<Error> Engine::refuse_broken_pmem() const {
  return refuse(
      "the log on persistent memory cannot be written at its beginning" + pmem->place().named() + ". " +
      pmem->place().bad_block_advice() +
      ". No object was changed. With accept_data_loss the next start takes the new one; without data.pmem the "
      "store works from the disk alone.");
}

// Before the directory gets a format that older programs refuse.
Result<void> Engine::map_pmem() {
  if (options.pmem.empty()) return {};
  auto& memories = options.pmem_memories != nullptr ? *options.pmem_memories : real_persistent_memories();
  std::string trouble;
  auto memory = memories.open(options.pmem, options.pmem_log_size, trouble);
  if (!memory) {
    log::error("store: {}", trouble);
    if (options.trouble != nullptr) *options.trouble = std::move(trouble);
    return std::unexpected(memory.error());
  }
  pmem = std::make_unique<PmemLog>(std::move(*memory));
  return {};
}

// Decides which log it is.
Result<void> Engine::open_pmem() {
  VB_ASSIGN(const auto wanted, log_id_in(*index, keys::pmem_log()));
  VB_ASSIGN(const auto over, logs_over(*index));
  if (pmem == nullptr) {
    if (!wanted) return {};
    if (!options.accept_data_loss) {
      return refuse_pmem("the store used persistent memory, and was not stopped in order, but data.pmem is not set");
    }
    log::error("store: the log on persistent memory is given up: accept_data_loss is set");
    Batch batch(*index);
    batch.erase(Family::meta, keys::pmem_log());
    batch.put(Family::meta, keys::pmem_over(), std::to_string(*wanted));
    VB_TRY(index->write(batch));
    return index->sync();
  }
  const std::string where = pmem->place().named();
  const auto older = pmem->older_id();
  if (older && options.accept_data_loss) return use_pmem(0);
  if (older && (!wanted || older == wanted)) {
    if (!contains(over, older) && !pmem->is_older_empty(*older)) {
      return refuse_pmem("the log on persistent memory is of an older program: start that once and stop it" + where);
    }
    return replace_older_pmem(wanted);
  }
  std::string trouble;
  const auto there = older ? Result<std::optional<uint64_t>>(older) : pmem->id(trouble);
  if (!there && !options.accept_data_loss && !wanted) return refuse_unneeded_pmem(trouble + where);
  if (!there && (!options.accept_data_loss || pmem->size() < PmemLog::size_min)) return refuse_pmem(trouble + where);
  const std::optional<uint64_t> id = there ? *there : std::nullopt;
  if (wanted && id == wanted) return use_pmem(*wanted);
  if (options.accept_data_loss) return use_pmem(0);
  if (wanted) {
    return refuse_pmem(
        (id ? "the log on persistent memory is another store's" : "the log on persistent memory is missing") + where);
  }
  // No log of this store: one that has nothing for its own store may be overwritten.
  if (id && !contains(over, id)) {
    VB_ASSIGN(const bool others, is_anothers(*index, *pmem));
    if (others) return refuse(held_words(*pmem));
    const auto contents = pmem->recover(*id);
    if (!contents.waiting.empty() || !contents.damage.empty()) {
      return refuse_pmem("the log on persistent memory has " + std::to_string(contents.waiting.size()) +
                         " objects of another store" + where);
    }
  }
  return use_pmem(0);
}

// A log that has nothing. A power cut must not leave its name in the index when it is gone.
Result<void> Engine::replace_older_pmem(std::optional<uint64_t> named) {
  pmem_id = named.value_or(0);
  if (named) VB_TRY(end_pmem_log());
  return use_pmem(0);
}

// 0: makes a new log. The index names it, durably, before anything can be in it.
Result<void> Engine::use_pmem(uint64_t id) {
  if (id == 0) {
    pmem_id = new_log_id();
    VB_TRY(announce_log(*index, *pmem, pmem_id));
    VB_ASSIGN(const bool others, is_anothers(*index, *pmem));
    if (others) return refuse(held_words(*pmem));
    if (!pmem->format(pmem_id)) return refuse_broken_pmem();
    Batch batch(*index);
    batch.put(Family::meta, keys::pmem_log(), std::to_string(pmem_id));
    batch.erase(Family::meta, keys::pmem_over());
    VB_TRY(index->write(batch));
    VB_TRY(index->sync());
    // A store in another container may have made its own meanwhile.
    std::string trouble;
    const auto there = pmem->id(trouble);
    if (!there || *there != pmem_id || !pmem->is_held(pmem_id)) {
      VB_TRY(end_pmem_log());
      return refuse(held_words(*pmem));
    }
    log::info("store: {} of persistent memory in {}, lines are written back by {}", format_size(pmem->size()),
              options.pmem.string(), line_write_back());
    return {};
  }
  pmem_id = id;
  auto contents = pmem->recover(id);
  for (const std::string& damage : contents.damage) log::error("store: {}", damage);
  if (!contents.damage.empty() && !options.accept_data_loss) return refuse_pmem(contents.damage.front());
  if (contents.unusable) return use_pmem(0);
  pmem->hold();
  pmem->free_what_is_over();
  if (!contents.waiting.empty()) {
    log::info("store: {} objects come from the log on persistent memory", contents.waiting.size());
  }
  found_in_pmem = std::move(contents.waiting);
  return {};
}

// What the log acknowledged and cannot give any more is put into the index as an object whose bytes are damaged, before
// a door is open: its key must not have the object before it, or none.
Result<void> Engine::keep_lost_objects() {
  std::map<uint64_t, std::shared_ptr<const Bucket>> known;
  for (auto& bucket : buckets.all()) known.emplace(bucket->id, bucket);
  std::vector<std::shared_ptr<Lost>> all;
  for (PmemLog::Found& found : std::exchange(found_in_pmem, {})) {
    const auto bucket = known.find(found.bucket);
    if (bucket == known.end()) {
      pmem->moved(found.place);
      continue;
    }
    VB_ASSIGN(auto lost, lost_object(std::move(found), bucket->second, next_id()));
    all.push_back(std::move(lost));
  }
  for (size_t i = 0; i < all.size(); i += WriteBehind::batch_max) {
    commit_lost(*committer, std::span(all).subspan(i, std::min(WriteBehind::batch_max, all.size() - i)));
  }
  if (!all.empty()) VB_TRY(index->sync());
  for (const auto& lost : all) {
    if (!lost->outcome) {
      std::string sentence = fmt::format(
          "{}/{} was acknowledged and is damaged in the log on persistent memory, and the index does not "
          "take it as such: {}",
          lost->bucket->name, log::printable(lost->key), describe(lost->outcome.error()));
      if (!lost->has_unreadable_row && !options.accept_data_loss) {
        return refuse(std::move(sentence) +
                      ". Its key would have the object before it, or none. `verbena fsck` names damaged rows: mend "
                      "what keeps the index from it and start again, or go on without the object: accept_data_loss.");
      }
      log::error("store: {}. It is given up: {}", sentence,
                 lost->has_unreadable_row ? "its key answers with an error already, since its row cannot be read"
                                          : "accept_data_loss is set");
    }
    pmem->moved(lost->place);
  }
  return {};
}

// Once the buckets are known.
Result<void> Engine::begin_pmem() {
  std::vector<PmemLog::Found> whole;
  for (PmemLog::Found& found : found_in_pmem) {
    if (!found.lost) whole.push_back(std::move(found));
  }
  std::erase_if(found_in_pmem, [](const PmemLog::Found& found) { return !found.lost; });
  VB_TRY(behind->bring_back(std::move(whole)));
  uses_pmem = pmem != nullptr;
  return {};
}

Result<void> Engine::end_pmem_log() {
  Batch batch(*index);
  batch.erase(Family::meta, keys::pmem_log());
  batch.put(Family::meta, keys::pmem_over(), std::to_string(pmem_id));
  VB_TRY(index->write(batch));
  return index->sync();
}

void Engine::leave_pmem() {
  if (!std::exchange(uses_pmem, false) || !pmem->empty()) return;
  if (const auto ended = end_pmem_log(); !ended) {
    log::warn("store: data.pmem must be set at the next start, too: {}", describe(ended.error()));
    return;
  }
  pmem->give_back();
}

}  // namespace verbena::store::local
