#include "store/rados/members/intents.h"

#include <algorithm>

#include "store/logic/codec.h"
#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

void put(Encoder& e, const Intent& intent) {
  e.text(keys::number(intent.change));
  e.varint(intent.bucket);
  e.varint(intent.epoch);
  e.text(intent.name);
}

Intent take_intent(Decoder& d) {
  Intent intent;
  intent.change = keys::parse_number(d.text()).value_or(0);
  intent.bucket = d.varint();
  intent.epoch = d.varint();
  intent.name = d.text();
  return intent;
}

template <class Key>
void count_down(auto& counts, const Key& key) {
  const auto found = counts.find(key);
  if (found != counts.end() && --found->second == 0) counts.erase(found);
}

}  // namespace

std::string encode(const std::vector<Intent>& intents) {
  Encoder e;
  e.varint(intents.size());
  for (const Intent& intent : intents) put(e, intent);
  return e.take();
}

Result<std::vector<Intent>> decode_intents(std::string_view bytes) {
  Decoder d(bytes);
  std::vector<Intent> intents;
  for (size_t left = d.count(4); left != 0; --left) intents.push_back(take_intent(d));
  return finished(d, std::move(intents));
}

std::string encode(const Notice& notice) {
  if (notice.kind == Notice::Kind::changed) return keys::number(notice.bucket);
  Encoder e;
  e.u8(static_cast<uint8_t>(notice.kind));
  e.u8(notice.renames ? 1 : 0);
  put(e, notice.intent);  // padded, so that no notice is as long as a number
  return e.take();
}

Notice decode_notice(std::string_view message, uint64_t unknown) {
  if (const auto bucket = keys::parse_number(message)) return {.bucket = *bucket};
  Decoder d(message);
  Notice notice;
  notice.kind = d.enumerator(Notice::Kind::asking);
  notice.renames = d.flag();
  notice.intent = take_intent(d);
  if (!d.finish() || notice.kind == Notice::Kind::changed) return {.bucket = unknown};
  return notice;
}

void Intents::count() { count_.store(intents_.size() + (all_ ? 1 : 0), std::memory_order_release); }

bool Intents::find(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  return all_ || names_.contains(name);
}

bool Intents::find(uint64_t bucket) const {
  const std::shared_lock lock(mutex_);
  return all_ || buckets_.contains(bucket);
}

bool Intents::all() const {
  const std::shared_lock lock(mutex_);
  return all_;
}

size_t Intents::of(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  const auto found = names_.find(name);
  return found == names_.end() ? 0 : found->second;
}

bool Intents::put(const Intent& intent, Deadline until) {
  const std::unique_lock lock(mutex_);
  if (const auto found = intents_.find(intent.change); found != intents_.end()) {
    // Bucket and name stay, because they are counted.
    found->second.intent.epoch = std::max(found->second.intent.epoch, intent.epoch);
    found->second.until = until;
    return true;
  }
  if (intents_.size() >= intents_max) return false;
  intents_.emplace(intent.change, Entry{intent, until});
  ++names_[intent.name];
  ++buckets_[intent.bucket];
  count();
  return true;
}

void Intents::end(uint64_t change) {
  const std::unique_lock lock(mutex_);
  const auto found = intents_.find(change);
  if (found == intents_.end()) return;
  count_down(names_, found->second.intent.name);
  count_down(buckets_, found->second.intent.bucket);
  intents_.erase(found);
  if (intents_.empty() && !all_) readings_.clear();
  count();
}

void Intents::postpone(uint64_t change, Deadline until) {
  const std::unique_lock lock(mutex_);
  const auto found = intents_.find(change);
  if (found != intents_.end()) found->second.until = until;
}

void Intents::set_all(bool marked) {
  const std::unique_lock lock(mutex_);
  all_ = marked;
  count();
}

std::vector<Intent> Intents::list() const {
  const std::shared_lock lock(mutex_);
  std::vector<Intent> intents;
  for (const auto& [change, entry] : intents_) intents.push_back(entry.intent);
  return intents;
}

std::vector<Intent> Intents::over(Deadline now) const {
  std::vector<Intent> intents;
  if (!any()) return intents;
  const std::shared_lock lock(mutex_);
  for (const auto& [change, entry] : intents_) {
    if (entry.until <= now) intents.push_back(entry.intent);
  }
  return intents;
}

std::vector<std::string> Intents::names() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, count] : names_) names.push_back(name);
  return names;
}

bool Intents::was_read(std::string_view name, uint64_t since) const {
  const std::shared_lock lock(mutex_);
  const auto found = readings_.find(name);
  return found != readings_.end() && found->second > since;
}

void Intents::note_read(const std::string& name, uint64_t begun) {
  const std::unique_lock lock(mutex_);
  if (readings_.size() >= readings_max && !readings_.contains(name)) readings_.clear();
  uint64_t& last = readings_[name];
  last = std::max(last, begun);
}

ChangeCharges::Held ChangeCharges::take(const std::string& owner) {
  const std::lock_guard lock(mutex_);
  size_t& mine = of_owner_[owner];
  if (mine + 1 > (all_max - all_) / 4) {
    if (mine == 0) of_owner_.erase(owner);
    return {};
  }
  ++mine;
  ++all_;
  return {this, owner};
}

void ChangeCharges::give_back(const std::string& owner) {
  const std::lock_guard lock(mutex_);
  --all_;
  count_down(of_owner_, owner);
}

}  // namespace verbena::store::rados
