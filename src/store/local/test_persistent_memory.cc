#include "store/local/test_persistent_memory.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace verbena::store::local {

class ModelMemory final : public PersistentMemory {
 public:
  ModelMemory(ModelMemories& all, const std::filesystem::path& folder)
      : all_(all), place_{.path = folder / pmem_file_name, .is_node = all.is_node_} {}
  ~ModelMemory() override {
    const std::lock_guard lock(all_.mutex_);
    all_.open_ = false;
  }
  const PmemPlace& place() const override { return place_; }
  uint64_t size() const override { return all_.now_.size(); }

  bool load(MutableBytes into, uint64_t offset) const override {
    std::unique_lock lock(all_.mutex_);
    if (const auto before = all_.before_loads_) {
      lock.unlock();
      before(offset);
      lock.lock();
    }
    if (all_.is_poisoned(offset, into.size())) return false;
    if (!into.empty()) std::memcpy(into.data(), all_.now_.data() + offset, into.size());
    return true;
  }

  // Word by word, in order, as memcpy may store them.
  bool store(uint64_t offset, Bytes bytes) override {
    std::unique_lock lock(all_.mutex_);
    if (const auto before = std::exchange(all_.before_store_, {})) {
      lock.unlock();
      before();
      lock.lock();
    }
    if (all_.is_poisoned(offset, bytes.size())) return false;
    const bool on = all_.counts_locked();
    for (size_t done = 0; done < bytes.size();) {
      const uint64_t word = (offset + done) / 8 * 8;
      const uint64_t from = offset + done - word, length = std::min<uint64_t>(8 - from, bytes.size() - done);
      std::memcpy(all_.now_.data() + word + from, bytes.data() + done, length);
      uint64_t value = 0;
      std::memcpy(&value, all_.now_.data() + word, sizeof value);
      if (on) all_.store_word(word, value);
      done += length;
    }
    return true;
  }

  bool store_number(uint64_t offset, uint64_t number) override {
    return store(offset, std::as_bytes(std::span(&number, 1)));
  }

  bool flush(uint64_t offset, uint64_t length) override {
    const std::lock_guard lock(all_.mutex_);
    if (!all_.counts_locked()) return true;
    for (auto line = all_.lines_.lower_bound(offset / cache_line * cache_line);
         line != all_.lines_.end() && line->first < offset + length; ++line) {
      line->second.flushed = line->second.stores.size();
    }
    return true;
  }

  void fence() override {
    const std::lock_guard lock(all_.mutex_);
    if (!all_.counts_locked()) return;
    for (auto at = all_.lines_.begin(); at != all_.lines_.end();) {
      auto& [offset, line] = *at;
      all_.keep(line, line.flushed);
      line.stores.erase(line.stores.begin(), line.stores.begin() + static_cast<ptrdiff_t>(line.flushed));
      line.flushed = 0;
      at = line.stores.empty() ? all_.lines_.erase(at) : std::next(at);
    }
  }

 private:
  ModelMemories& all_;
  const PmemPlace place_;
};

Result<std::unique_ptr<PersistentMemory>> ModelMemories::open(const std::filesystem::path& folder, uint64_t size,
                                                              std::string& trouble) {
  const std::lock_guard lock(mutex_);
  if (open_) {
    trouble = "data.pmem: the model is in use by another server";
    return fail(Errc::service_unavailable, "model");
  }
  open_ = true;
  if (now_.empty()) {
    now_.resize(size);
    durable_.resize(size);
  }
  return std::make_unique<ModelMemory>(*this, folder);
}

bool ModelMemories::counts_locked() {
  if (!off_ && calls_++ == cut_at_) {
    off_ = true;
    if (then_) then_();
  }
  return !off_;
}

bool ModelMemories::is_poisoned(uint64_t offset, uint64_t length) const {
  return std::ranges::any_of(poisoned_,
                             [&](uint64_t line) { return line < offset + length && offset < line + cache_line; });
}

void ModelMemories::store_word(uint64_t word, uint64_t value) {
  lines_[word / cache_line * cache_line].stores.push_back({word, value});
}

void ModelMemories::keep(const Line& line, size_t count) {
  for (size_t i = 0; i < count; ++i) std::memcpy(durable_.data() + line.stores[i].word, &line.stores[i].value, 8);
}

void ModelMemories::keep_of_each_word(const Line& line, std::mt19937_64& random) {
  std::set<uint64_t> ended;
  for (const Store& store : line.stores) {
    if (random() % 3 == 0) ended.insert(store.word);
    if (!ended.contains(store.word)) std::memcpy(durable_.data() + store.word, &store.value, sizeof store.value);
  }
}

// As a processor that keeps the order of stores has it, and as one that does not.
void ModelMemories::cut(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  std::mt19937_64 random(seed);
  for (const auto& [offset, line] : lines_) {
    if (random() % 2 == 0) {
      keep(line, random() % (line.stores.size() + 1));
    } else {
      keep_of_each_word(line, random);
    }
  }
  lines_.clear();
  now_ = durable_;
  off_ = false;
  cut_at_ = UINT64_MAX;
  then_ = {};
}

void ModelMemories::cut_at(uint64_t call, std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  calls_ = 0;
  cut_at_ = call;
  then_ = std::move(then);
}

void ModelMemories::before_next_store(std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  before_store_ = std::move(then);
}

void ModelMemories::before_loads(std::function<void(uint64_t offset)> then) {
  const std::lock_guard lock(mutex_);
  before_loads_ = std::move(then);
}

bool ModelMemories::was_cut() const {
  const std::lock_guard lock(mutex_);
  return off_;
}

void ModelMemories::poison(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  poisoned_.push_back(offset / cache_line * cache_line);
}

void ModelMemories::change(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  for (auto* bytes : {&now_, &durable_}) (*bytes)[offset] ^= std::byte{0x40};
}

void ModelMemories::set(uint64_t offset, std::byte to) {
  const std::lock_guard lock(mutex_);
  for (auto* bytes : {&now_, &durable_}) (*bytes)[offset] = to;
}

void ModelMemories::tear(uint64_t offset, size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (auto* all : {&now_, &durable_}) std::memset(all->data() + offset + bytes, 0, 8 - bytes);
}

void ModelMemories::shrink(uint64_t size) {
  const std::lock_guard lock(mutex_);
  now_.resize(size);
  durable_.resize(size);
}

void ModelMemories::forget() {
  const std::lock_guard lock(mutex_);
  now_.clear();
  durable_.clear();
  lines_.clear();
}

void ModelMemories::replace() {
  forget();
  const std::lock_guard lock(mutex_);
  poisoned_.clear();
}

std::vector<std::byte> ModelMemories::bytes() const {
  const std::lock_guard lock(mutex_);
  return durable_;
}

}  // namespace verbena::store::local
