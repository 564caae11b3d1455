// Start and end of the log on persistent memory. The index names the log that may have objects which it does not have
// itself. A start without that log is refused, and so is one with the log of another store; an orderly stop that left
// nothing there removes the name.
#include <charconv>
#include <span>

#include "base/bytes.h"
#include "base/log.h"
#include "store/local/engine.h"
#include "store/local/pmem_log.h"
#include "store/local/write_behind.h"

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
                ". No object of this store is there alone, but another store's may be. No object was changed. Take the "
                "file away and start again, or overwrite it: accept_data_loss.");
}

std::unexpected<Error> Engine::refuse_broken_pmem() const {
  return refuse("the log on persistent memory cannot be written at its beginning (data.pmem: " +
                (options.pmem / pmem_file_name).string() + "). " + pmem_bad_block_advice +
                ". No object was changed. With accept_data_loss the next start makes a new file; without data.pmem the "
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
  VB_ASSIGN(const auto over, log_id_in(*index, keys::pmem_over()));
  if (pmem == nullptr) {
    if (!wanted) return {};
    if (!options.accept_data_loss) {
      return refuse_pmem("the store used persistent memory, and was not stopped in order, but data.pmem is not set");
    }
    log::error("store: the log on persistent memory is given up: accept_data_loss is set");
    Batch batch(*index);
    batch.erase(Family::meta, keys::pmem_log());
    VB_TRY(index->write(batch));
    return index->sync();
  }
  std::string trouble;
  const auto there = pmem->id(trouble);
  const std::string where = " (data.pmem: " + (options.pmem / pmem_file_name).string() + ")";
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
  if (id && id != over) {
    const auto contents = pmem->recover(*id);
    if (!contents.waiting.empty() || !contents.damage.empty()) {
      return refuse_pmem("the log on persistent memory has " + std::to_string(contents.waiting.size()) +
                         " objects of another store" + where);
    }
  }
  return use_pmem(0);
}

// 0: makes a new log. The index names it, durably, before anything can be in it.
Result<void> Engine::use_pmem(uint64_t id) {
  if (id == 0) {
    pmem_id = new_log_id();
    if (!pmem->format(pmem_id)) return refuse_broken_pmem();
    Batch batch(*index);
    batch.put(Family::meta, keys::pmem_log(), std::to_string(pmem_id));
    VB_TRY(index->write(batch));
    VB_TRY(index->sync());
    log::info("store: {} of persistent memory in {}, lines are written back by {}", format_size(pmem->size()),
              options.pmem.string(), line_write_back());
    return {};
  }
  pmem_id = id;
  auto contents = pmem->recover(id);
  for (const std::string& damage : contents.damage) log::error("store: {}", damage);
  if (!contents.damage.empty() && !options.accept_data_loss) return refuse_pmem(contents.damage.front());
  if (contents.unusable) return use_pmem(0);
  pmem->free_what_is_over();
  if (!contents.waiting.empty()) {
    log::info("store: {} objects come from the log on persistent memory", contents.waiting.size());
  }
  found_in_pmem = std::move(contents.waiting);
  return {};
}

// Once the buckets are known.
Result<void> Engine::begin_pmem() {
  VB_TRY(behind->bring_back(std::exchange(found_in_pmem, {})));
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
  }
}

}  // namespace verbena::store::local
