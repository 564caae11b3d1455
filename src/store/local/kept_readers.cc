#include "store/local/kept_readers.h"

#include <algorithm>

namespace verbena::store::local {
namespace {

constexpr size_t kept_max = 16;  // of at most 10,000 parts each

}  // namespace

std::shared_ptr<ObjectReader> KeptReaders::find(uint64_t object, std::string_view head) {
  std::list<Kept> outdated;  // readers are destroyed without the lock
  std::lock_guard lock(mutex_);
  const auto it = std::ranges::find(kept_, object, &Kept::object);
  if (it == kept_.end()) return nullptr;
  if (it->head != head) {
    outdated.splice(outdated.begin(), kept_, it);
    return nullptr;
  }
  kept_.splice(kept_.begin(), kept_, it);
  return it->reader;
}

void KeptReaders::keep(uint64_t object, std::string head, std::vector<uint64_t> blobs,
                       std::shared_ptr<ObjectReader> reader) {
  std::ranges::sort(blobs);
  std::list<Kept> out;
  std::lock_guard lock(mutex_);
  if (closed_) return;
  const auto it = std::ranges::find(kept_, object, &Kept::object);
  if (it != kept_.end()) out.splice(out.begin(), kept_, it);
  kept_.push_front({object, std::move(head), std::move(blobs), std::move(reader)});
  if (kept_.size() > kept_max) out.splice(out.begin(), kept_, std::prev(kept_.end()));
}

void KeptReaders::release(const std::vector<uint64_t>& blobs) {
  std::list<Kept> out;
  std::lock_guard lock(mutex_);
  for (auto it = kept_.begin(); it != kept_.end();) {
    const auto next = std::next(it);
    const auto pins = [&](uint64_t blob) { return std::ranges::binary_search(it->blobs, blob); };
    if (std::ranges::any_of(blobs, pins)) out.splice(out.begin(), kept_, it);
    it = next;
  }
}

void KeptReaders::close() {
  std::list<Kept> out;
  std::lock_guard lock(mutex_);
  closed_ = true;
  out.swap(kept_);
}

}  // namespace verbena::store::local
