#include "native/leases.h"

#include <algorithm>

#include "base/bytes.h"
#include "store/key_pins.h"

namespace verbena::native {
namespace {

// Less than a word, so that a client can say with it which stream the lease is of.
constexpr uint64_t lease_id_mask = (uint64_t{1} << 48) - 1;

std::string lease_name(std::string_view bucket, std::string_view key) {
  std::string name;
  name.reserve(bucket.size() + 1 + key.size());
  return name.append(bucket).append("/").append(key);
}

}  // namespace

LeaseLimits::LeaseLimits(Options options)
    : options_(options),
      keys_gauge_(metrics::gauge("verbena_native_lease_keys", "Keys that leases of native sessions hold")),
      bytes_gauge_(metrics::gauge("verbena_native_lease_bytes", "Bytes of the objects that leases hold")),
      refused_(metrics::counter("verbena_native_lease_refused_total", "Keys that leases did not take for a limit")) {}

LeaseLimits::PartyPtr LeaseLimits::account(std::string_view name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(accounts_, [](const auto& one) { return one.second.expired(); });
  auto& known = accounts_[std::string(name)];
  auto party = known.lock();
  if (party == nullptr) known = party = std::make_shared<Party>();
  return party;
}

bool LeaseLimits::fits(const Party& party, uint64_t bytes, unsigned share) const {
  const uint64_t bytes_max = options_.bytes_max / share;
  return party.keys < options_.keys_max / share && party.bytes <= bytes_max && bytes <= bytes_max - party.bytes;
}

bool LeaseLimits::take(Party& account, Party& stream, uint64_t bytes, bool in_memory) {
  const std::lock_guard lock(mutex_);
  const bool memory_fits =
      !in_memory || (bytes <= options_.memory_bytes_max && memory_bytes_ <= options_.memory_bytes_max - bytes);
  if (!memory_fits || !fits(all_, bytes, 1) || !fits(account, bytes, 2) || !fits(stream, bytes, 4)) {
    refused_.add();
    return false;
  }
  for (Party* const party : {&all_, &account, &stream}) ++party->keys, party->bytes += bytes;
  if (in_memory) memory_bytes_ += bytes;
  keys_gauge_.add(1);
  bytes_gauge_.add(static_cast<int64_t>(bytes));
  return true;
}

void LeaseLimits::give_back(Party& account, Party& stream, uint64_t bytes, bool in_memory) {
  const std::lock_guard lock(mutex_);
  for (Party* const party : {&all_, &account, &stream}) --party->keys, party->bytes -= bytes;
  if (in_memory) memory_bytes_ -= bytes;
  keys_gauge_.add(-1);
  bytes_gauge_.add(-static_cast<int64_t>(bytes));
}

Leases::Leases(LeaseLimits& limits, std::string_view account) : limits_(limits), account_(limits.account(account)) {}

Leases::~Leases() {
  for (auto& [id, lease] : leases_) ended_.push_back(std::move(lease));
  while (!ended_.empty()) release_some();
}

uint64_t Leases::begin(uint64_t id, Deadline until) {
  auto found = leases_.find(id);
  if (id == 0 || found == leases_.end()) {
    do {
      fill_random(std::as_writable_bytes(std::span(&id, 1)));
      id &= lease_id_mask;
    } while (id == 0 || leases_.contains(id));
    found = leases_.emplace(id, Lease{.until = until, .kept = false, .keys = {}}).first;
    by_end_.emplace(until, id);
  }
  Lease& lease = found->second;
  if (until > lease.until) {
    by_end_.erase({lease.until, id});
    by_end_.emplace(lease.until = until, id);
  }
  return id;
}

Result<void> Leases::add(uint64_t id, std::string_view bucket, std::string_view key,
                         std::shared_ptr<store::ObjectReader> reader, bool in_memory) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return fail(Errc::no_such_key, "native: the lease has ended");
  std::string name = lease_name(bucket, key);
  auto& keys = found->second.keys;
  if (keys.contains(name)) return {};
  const uint64_t bytes = store::stored_size(reader->info());
  if (!limits_.take(*account_, own_, bytes, in_memory)) return fail(Errc::slow_down, "native: leases hold too much");
  store::KeyPins::get().pin(bucket, key);
  keys.emplace(std::move(name), Kept{std::move(reader), bytes, in_memory, bucket.size()});
  return {};
}

bool Leases::keep_until(uint64_t id, Deadline until) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return false;
  Lease& lease = found->second;
  if (lease.keys.empty()) {
    end(id);
    return false;
  }
  const Deadline at = lease.kept ? std::max(until, lease.until) : until;
  lease.kept = true;
  by_end_.erase({lease.until, id});
  by_end_.emplace(lease.until = at, id);
  return true;
}

std::shared_ptr<store::ObjectReader> Leases::find(uint64_t id, std::string_view bucket, std::string_view key) const {
  const auto found = leases_.find(id);
  if (found == leases_.end() || found->second.until <= SteadyClock::now()) return nullptr;
  const auto kept = found->second.keys.find(lease_name(bucket, key));
  return kept == found->second.keys.end() ? nullptr : kept->second.reader;
}

void Leases::end(uint64_t id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;
  by_end_.erase({found->second.until, id});
  ended_.push_back(std::move(found->second));
  leases_.erase(found);
  release_some();
}

void Leases::sweep(Deadline now) {
  while (!by_end_.empty() && by_end_.begin()->first <= now) {
    const uint64_t id = by_end_.begin()->second;
    by_end_.erase(by_end_.begin());
    const auto found = leases_.find(id);
    ended_.push_back(std::move(found->second));
    leases_.erase(found);
  }
  release_some();
}

void Leases::release_some() {
  size_t left = release_max;
  while (!ended_.empty()) {
    auto& keys = ended_.back().keys;
    for (; !keys.empty() && left != 0; --left) {
      release(keys.begin()->first, keys.begin()->second);
      keys.erase(keys.begin());
    }
    if (!keys.empty()) return;
    ended_.pop_back();
  }
}

void Leases::release(const std::string& name, Kept& kept) {
  const std::string_view whole = name;
  store::KeyPins::get().unpin(whole.substr(0, kept.bucket_size), whole.substr(kept.bucket_size + 1));
  kept.reader.reset();
  limits_.give_back(*account_, own_, kept.bytes, kept.in_memory);
}

}  // namespace verbena::native
