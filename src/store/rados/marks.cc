#include "store/rados/marks.h"

#include <algorithm>

#include "store/logic/codec.h"
#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

void put(Encoder& e, const Mark& mark) {
  e.text(keys::number(mark.change));
  e.varint(mark.bucket);
  e.varint(mark.epoch);
  e.text(mark.name);
}

Mark take_mark(Decoder& d) {
  Mark mark;
  mark.change = keys::parse_number(d.text()).value_or(0);
  mark.bucket = d.varint();
  mark.epoch = d.varint();
  mark.name = d.text();
  return mark;
}

template <class Key>
void count_down(auto& counts, const Key& key) {
  const auto found = counts.find(key);
  if (found != counts.end() && --found->second == 0) counts.erase(found);
}

}  // namespace

std::string encode(const std::vector<Mark>& marks) {
  Encoder e;
  e.varint(marks.size());
  for (const Mark& mark : marks) put(e, mark);
  return e.take();
}

Result<std::vector<Mark>> decode_marks(std::string_view bytes) {
  Decoder d(bytes);
  std::vector<Mark> marks;
  for (size_t left = d.count(4); left != 0; --left) marks.push_back(take_mark(d));
  return finished(d, std::move(marks));
}

std::string encode(const Notice& notice) {
  if (notice.kind == Notice::Kind::changed) return keys::number(notice.bucket);
  Encoder e;
  e.u8(static_cast<uint8_t>(notice.kind));
  e.u8(notice.renames ? 1 : 0);
  put(e, notice.mark);  // so that none is as long as a number
  return e.take();
}

Notice decode_notice(std::string_view message, uint64_t unknown) {
  if (const auto bucket = keys::parse_number(message)) return {.bucket = *bucket};
  Decoder d(message);
  Notice notice;
  notice.kind = d.enumerator(Notice::Kind::asking);
  notice.renames = d.flag();
  notice.mark = take_mark(d);
  if (!d.finish() || notice.kind == Notice::Kind::changed) return {.bucket = unknown};
  return notice;
}

void Marks::count() { count_.store(marks_.size() + (all_ ? 1 : 0), std::memory_order_release); }

bool Marks::find(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  return all_ || names_.contains(name);
}

bool Marks::find(uint64_t bucket) const {
  const std::shared_lock lock(mutex_);
  return all_ || buckets_.contains(bucket);
}

bool Marks::all() const {
  const std::shared_lock lock(mutex_);
  return all_;
}

size_t Marks::of(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  const auto found = names_.find(name);
  return found == names_.end() ? 0 : found->second;
}

bool Marks::put(const Mark& mark, Deadline until) {
  const std::unique_lock lock(mutex_);
  if (const auto found = marks_.find(mark.change); found != marks_.end()) {
    // Its bucket and its name it keeps: they are what is counted.
    found->second.mark.epoch = std::max(found->second.mark.epoch, mark.epoch);
    found->second.until = until;
    return true;
  }
  if (marks_.size() >= marks_max) return false;
  marks_.emplace(mark.change, Entry{mark, until});
  ++names_[mark.name];
  ++buckets_[mark.bucket];
  count();
  return true;
}

void Marks::end(uint64_t change) {
  const std::unique_lock lock(mutex_);
  const auto found = marks_.find(change);
  if (found == marks_.end()) return;
  count_down(names_, found->second.mark.name);
  count_down(buckets_, found->second.mark.bucket);
  marks_.erase(found);
  if (marks_.empty() && !all_) readings_.clear();
  count();
}

void Marks::postpone(uint64_t change, Deadline until) {
  const std::unique_lock lock(mutex_);
  const auto found = marks_.find(change);
  if (found != marks_.end()) found->second.until = until;
}

void Marks::set_all(bool marked) {
  const std::unique_lock lock(mutex_);
  all_ = marked;
  count();
}

std::vector<Mark> Marks::list() const {
  const std::shared_lock lock(mutex_);
  std::vector<Mark> marks;
  for (const auto& [change, entry] : marks_) marks.push_back(entry.mark);
  return marks;
}

std::vector<Mark> Marks::over(Deadline now) const {
  std::vector<Mark> marks;
  if (!any()) return marks;
  const std::shared_lock lock(mutex_);
  for (const auto& [change, entry] : marks_) {
    if (entry.until <= now) marks.push_back(entry.mark);
  }
  return marks;
}

std::vector<std::string> Marks::names() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, count] : names_) names.push_back(name);
  return names;
}

bool Marks::was_read(std::string_view name, uint64_t since) const {
  const std::shared_lock lock(mutex_);
  const auto found = readings_.find(name);
  return found != readings_.end() && found->second > since;
}

void Marks::note_read(const std::string& name, uint64_t begun) {
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
