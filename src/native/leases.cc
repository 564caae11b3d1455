#include "native/leases.h"

#include <algorithm>

#include "base/bytes.h"
#include "s3/access/bound.h"
#include "store/key_pins.h"
#include "store/reads_behind.h"

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

uint64_t lease_memory(uint64_t bytes, bool in_memory) {
  constexpr uint64_t least = 4 * KiB, description = 1 * KiB, small = 64 * KiB;
  return description + (in_memory || bytes <= small ? std::max(bytes, least) : 0);
}

bool LeaseLimits::take(Party& account, Party& stream, uint64_t bytes, bool in_memory) {
  const std::lock_guard lock(mutex_);
  const uint64_t memory = lease_memory(bytes, in_memory);
  const auto has_memory = [&](const Party& party, unsigned share) {
    const uint64_t most = options_.memory_bytes_max / share;
    return memory <= most && party.memory_bytes <= most - memory;
  };
  const bool memory_fits = has_memory(all_, 1) && has_memory(account, 2);
  if (!memory_fits || !fits(all_, bytes, 1) || !fits(account, bytes, 2) || !fits(stream, bytes, 4)) {
    refused_.add();
    return false;
  }
  for (Party* const party : {&all_, &account, &stream}) ++party->keys, party->bytes += bytes;
  for (Party* const party : {&all_, &account}) party->memory_bytes += memory;
  keys_gauge_.add(1);
  bytes_gauge_.add(static_cast<int64_t>(bytes));
  return true;
}

void LeaseLimits::give_back(Party& account, Party& stream, uint64_t bytes, bool in_memory) {
  const std::lock_guard lock(mutex_);
  for (Party* const party : {&all_, &account, &stream}) --party->keys, party->bytes -= bytes;
  for (Party* const party : {&all_, &account}) party->memory_bytes -= lease_memory(bytes, in_memory);
  keys_gauge_.add(-1);
  bytes_gauge_.add(-static_cast<int64_t>(bytes));
}

bool LeaseLimits::take_foreign(const s3::BucketAccess& bucket, std::string_view account, std::string_view key,
                               uint64_t bytes) {
  const bool taken = foreign_.take(bucket, account, key, bytes);
  if (!taken) refused_.add();
  return taken;
}

bool is_same_version(const store::ObjectInfo& one, const store::ObjectInfo& other) {
  return one.version_id == other.version_id && one.etag == other.etag && one.modified_us == other.modified_us &&
         one.size == other.size;
}

LeaseBook::~LeaseBook() {
  while (work(Deadline::max())) {
  }
}

uint64_t LeaseBook::make(OwnerPtr owner, Deadline until, Deadline now) {
  uint64_t id = 0;
  do {
    fill_random(std::as_writable_bytes(std::span(&id, 1)));
    id &= lease_id_mask;
  } while (id == 0 || leases_.contains(id));
  owner->leases.insert(id);
  leases_.emplace(id, Lease{.owner = std::move(owner), .until = until, .last = now + Leases::longest});
  by_end_.emplace(until, id);
  return id;
}

LeaseBook::Lease* LeaseBook::of(const Owner& owner, uint64_t id) {
  const auto found = leases_.find(id);
  return found == leases_.end() || found->second.owner.get() != &owner ? nullptr : &found->second;
}

void LeaseBook::end_at(uint64_t id, Lease& lease, Deadline until) {
  by_end_.erase({lease.until, id});
  by_end_.emplace(lease.until = until, id);
}

void LeaseBook::end(Leased::iterator lease) {
  by_end_.erase({lease->second.until, lease->first});
  lease->second.owner->leases.erase(lease->first);
  ended_.push_back(std::move(lease->second));
  leases_.erase(lease);
}

bool LeaseBook::work(Deadline now) {
  size_t ends = turn_max, releases = turn_max;
  while (!closed_.empty() && ends != 0) {
    Owner& owner = *closed_.back();
    for (; !owner.leases.empty() && ends != 0; --ends) end(leases_.find(*owner.leases.begin()));
    if (owner.leases.empty()) closed_.pop_back();
  }
  for (; !by_end_.empty() && by_end_.begin()->first <= now && ends != 0; --ends) {
    end(leases_.find(by_end_.begin()->second));
  }
  while (!ended_.empty() && releases != 0) {
    auto& [owner, until, last, promised, requests, keys] = ended_.back();
    for (; !keys.empty() && releases != 0; --releases) {
      release(*owner, keys.begin()->first, keys.begin()->second);
      keys.erase(keys.begin());
    }
    if (keys.empty()) ended_.pop_back();
  }
  return !closed_.empty() || !ended_.empty() || (!by_end_.empty() && by_end_.begin()->first <= now);
}

// Whether the bucket has a bound of which the stream's account may pin a part alone.
bool LeaseBook::is_foreign(const Owner& owner, const s3::BucketAccess& bucket) {
  const bool own = !owner.account.empty() && owner.account == bucket.owner_id;
  return !own && bucket.bound != nullptr && bucket.bound->settings().is_limited();
}

void LeaseBook::release(Owner& owner, const std::string& name, Kept& kept) {
  const std::string& bucket = kept.bucket->name;
  const std::string_view key = std::string_view(name).substr(bucket.size() + 1);
  store::KeyPins::get().unpin(bucket, key);
  if (kept.foreign) limits_.give_back_foreign(*kept.bucket, owner.account, key);
  kept.reader.reset();
  limits_.give_back(*owner.payer, owner.own, kept.bytes, kept.in_memory);
}

Leases::Leases(std::shared_ptr<LeaseBook> book, std::string_view account)
    : book_(std::move(book)),
      owner_(std::make_shared<LeaseBook::Owner>(std::string(account), book_->limits().account(account))) {}

// What a turn leaves is released at the sweeps of the endpoint.
Leases::~Leases() {
  owner_->open = false;
  book_->closed_.push_back(owner_);
  (void)book_->work(SteadyClock::now());
}

uint64_t Leases::begin(uint64_t id, Deadline until, Deadline now) {
  LeaseBook::Lease* const known = id == 0 ? nullptr : book_->of(*owner_, id);
  if (known == nullptr || known->last <= now) return book_->make(owner_, until, now);
  ++known->requests;
  until = std::min(until, known->last + std::chrono::minutes(1));
  if (until > known->until) book_->end_at(id, *known, until);
  return id;
}

Result<void> Leases::add(uint64_t id, const s3::BucketAccessPtr& bucket, std::string_view key,
                         std::shared_ptr<store::ObjectReader> reader, bool in_memory) {
  LeaseBook::Lease* const lease = book_->of(*owner_, id);
  if (lease == nullptr) return fail(Errc::no_such_key, "native: the lease has ended");
  reader = store::behind(std::move(reader));
  std::string name = lease_name(bucket->name, key);
  auto& keys = lease->keys;
  const auto known = keys.find(name);
  if (known != keys.end() && is_same_version(known->second.reader->info(), reader->info()) &&
      known->second.bucket->created_us == bucket->created_us) {
    return {};
  }
  const uint64_t bytes = store::stored_size(reader->info());
  in_memory = in_memory || (bytes != 0 && !reader->peek(0, 1).bytes.empty());
  if (!book_->limits().take(*owner_->payer, owner_->own, bytes, in_memory)) {
    return fail(Errc::slow_down, "native: leases hold too much");
  }
  const bool foreign = book_->is_foreign(*owner_, *bucket);
  if (foreign && !book_->limits().take_foreign(*bucket, owner_->account, key, bytes)) {
    book_->limits().give_back(*owner_->payer, owner_->own, bytes, in_memory);
    return fail(Errc::slow_down, "native: leases of accounts that do not own the bucket pin their part of it");
  }
  store::KeyPins::get().pin(bucket->name, key);
  if (known != keys.end()) book_->release(*owner_, known->first, known->second);
  keys.insert_or_assign(std::move(name), LeaseBook::Kept{std::move(reader), bucket, bytes, in_memory, foreign});
  return {};
}

bool Leases::keep_until(uint64_t id, Deadline until) {
  LeaseBook::Lease* const lease = book_->of(*owner_, id);
  if (lease == nullptr) return false;
  const bool holds = !lease->keys.empty();
  if (holds) lease->promised = std::min(std::max(until, lease->promised), lease->last);
  close(id, *lease);
  return holds;
}

void Leases::leave(uint64_t id) {
  LeaseBook::Lease* const lease = book_->of(*owner_, id);
  if (lease != nullptr) close(id, *lease);
}

void Leases::close(uint64_t id, LeaseBook::Lease& lease) {
  if (--lease.requests != 0) return;
  if (lease.promised == Deadline::min()) return end(id);
  book_->end_at(id, lease, lease.promised);
}

// The rights to the object are checked at each read, so what another session of the account adds is the name of a
// version that its key may not have any more.
Leases::Found Leases::find(uint64_t id, std::string_view bucket, std::string_view key) const {
  const auto found = book_->leases_.find(id);
  if (found == book_->leases_.end() || found->second.until <= SteadyClock::now()) return {};
  const LeaseBook::Owner& owner = *found->second.owner;
  const bool same_account = !owner.account.empty() && owner.account == owner_->account;
  if (!owner.open || (&owner != owner_.get() && !same_account)) return {};
  const auto kept = found->second.keys.find(lease_name(bucket, key));
  if (kept == found->second.keys.end()) return {};
  return {kept->second.reader, kept->second.bucket};
}

void Leases::end(uint64_t id) {
  const auto found = book_->leases_.find(id);
  if (found == book_->leases_.end() || found->second.owner != owner_) return;
  book_->end(found);
  (void)book_->work(SteadyClock::now());
}

}  // namespace verbena::native
