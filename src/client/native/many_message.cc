#include "client/native/many_message.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/checksum.h"
#include "base/copy.h"
#include "client/native/match.h"
#include "client/native/request.h"
#include "client/peer_memory.h"
#include "fabric/device.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;

// Larger payloads use one-sided operations, which pay off above these sizes; smaller ones are sent in the messages.
constexpr size_t inline_get_max = 256, inline_put_max = 1024;
// Approximate size of an answer with ETag and version.
constexpr size_t entry_space = 72;
constexpr size_t reply_size_max = wire::reply_size_max;
constexpr size_t progress_size = 8;

// Several windows, withdrawn together.
class LentMany final : public fabric::DeviceLent {
 public:
  const fabric::WindowDescriptor& descriptor() const override { return lent_.front()->descriptor(); }
  MutableBytes bytes() const override { return lent_.front()->bytes(); }
  void revoke() override {
    for (auto& lent : lent_) lent->revoke();
  }
  bool is_at_work() const override {
    return std::ranges::any_of(lent_, [](const auto& lent) {
      const auto* const of_device = dynamic_cast<const fabric::DeviceLent*>(lent.get());
      return of_device != nullptr && of_device->is_at_work();
    });
  }
  void add(std::unique_ptr<fabric::Lent> lent) { lent_.push_back(std::move(lent)); }

 private:
  std::vector<std::unique_ptr<fabric::Lent>> lent_;
};

wire::Descriptor wire_descriptor(const fabric::WindowDescriptor& d) { return {d.base, d.size, d.key}; }

size_t shared_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::string raw_crc32c(Bytes bytes) {
  const uint32_t crc = crc32c(bytes);
  std::string raw;
  for (int shift = 24; shift >= 0; shift -= 8) raw.push_back(static_cast<char>(crc >> shift));
  return raw;
}

uint8_t details_of(const ManyCall& call) {
  uint8_t details = wire::detail_etag | wire::detail_size | wire::detail_version;
  if (call.type == wire::Type::delete_many) details = wire::detail_version;
  if (call.type == wire::Type::get_many && (call.verify || call.tell_checksums)) details |= wire::detail_checksum;
  return details;
}

}  // namespace

bool ManyMessage::in_message(const BatchItem& item) const {
  if (item.size == 0) return true;
  if (!call_.devices.empty()) return false;  // no CPU could put the bytes there, or read them
  // The progress word reports places in windows: with it, nothing can be sent inside the reply.
  if (is_get() && call_.in_order) return false;
  const size_t most =
      std::min<size_t>(queue_.stream->endpoint().inline_max_bytes, is_put() ? inline_put_max : inline_get_max);
  return item.size <= most;
}

// Takes as many items off the queue as the message and its answer can hold; at least one: if that is too large,
// encoding fails.
void ManyMessage::choose(size_t room) {
  const size_t reply_room = std::min(queue_.stream->message_size_max(), reply_size_max) - wire::frame_size - 16;
  size_t request = 32 + 24 * (call_.windows.size() + 1), reply = 0;
  uint64_t bytes = 0;
  std::string_view before;
  while (!queue_.items.empty() && items_.size() < queue_.items_max) {
    const uint32_t index = queue_.items.front();
    const BatchItem& item = call_.items[index];
    auto bucket = std::ranges::find(buckets_, item.bucket);
    if (bucket == buckets_.end()) {
      if (buckets_.size() == wire::batch_buckets_max) break;
      request += 1 + item.bucket.size();
    }
    const bool carried = in_message(item);
    request += 6 + item.key.size() - shared_prefix(before, item.key) + 16 + 3 + item.version_id.size() +
               item.if_match.size() + item.if_none_match.size();
    reply += entry_space;
    if (is_get() || is_put()) request += carried ? 4 : 17;
    if (is_get() && carried) reply += item.size;
    if (is_put()) request += (item.ttl.count() == 0 ? 32 : 64) + item.content_type.size() + (carried ? item.size : 0);
    if (!carried) bytes += item.size;
    if (!items_.empty() && (request > room || reply > reply_room || bytes > queue_.bytes_max)) break;
    if (bucket == buckets_.end()) bucket = buckets_.insert(buckets_.end(), item.bucket);
    items_.push_back(index);
    bucket_numbers_.push_back(static_cast<uint8_t>(bucket - buckets_.begin()));
    queue_.items.pop_front();
    before = item.key;
  }
}

Result<void> ManyMessage::prepare(NativeStream::Body& body) {
  // The room of what is behind the body.
  const size_t lease_size =
      (call_.lease != 0 ? wire::lease_size : 0) + (call_.take != nullptr ? wire::lease_wish_size : 0);
  choose(body.out.left() - lease_size);
  told_ = call_.told;
  wire::BatchHead head;
  head.details = details_of(call_);
  for (const std::string_view bucket : buckets_) head.buckets.add(bucket);
  if (is_get() && !call_.in_order && call_.devices.empty()) {
    head.inline_max =
        static_cast<uint32_t>(std::min<size_t>(queue_.stream->endpoint().inline_max_bytes, inline_get_max));
  }
  if (is_get() || is_put()) VB_TRY(lend(body, head));
  if (is_get() && call_.in_order) VB_TRY(lend_progress(body, head));
  VB_TRY(encode(body, head));
  if (call_.lease != 0) {
    body.out.u64(ClientLease::id(call_.lease));
    body.flags |= wire::flag_lease;
  }
  if (call_.take != nullptr) {
    const auto most = std::min<int64_t>(call_.take->time.count(), UINT32_MAX);
    joins_ = call_.take->lease == 0 ? 0 : ClientLease::id(call_.take->lease);
    wire::put_lease_wish(body.out, {static_cast<uint32_t>(most), joins_});
    body.flags |= wire::flag_take_lease;
  }
  return {};
}

// Lends, of each of the caller's windows, the part that the items use. A part that cannot be lent is replaced by a
// block of the stream that holds the items alone.
Result<void> ManyMessage::lend(NativeStream::Body& body, wire::BatchHead& head) {
  windows_.resize(call_.windows.size());
  staged_at_.assign(items_.size(), 0);
  std::vector<uint64_t> sizes(call_.windows.size(), 0);
  for (size_t i = 0; i < items_.size(); ++i) {
    const BatchItem& item = call_.items[items_[i]];
    if (in_message(item)) continue;
    Window& window = windows_[item.window];
    if (sizes[item.window] == 0) window.from = item.offset;
    window.from = std::min<uint64_t>(window.from, item.offset);
    window.to = std::max<uint64_t>(window.to, item.offset + item.size);
    staged_at_[i] = sizes[item.window];
    sizes[item.window] += item.size;
  }
  const bool aside = std::ranges::any_of(items_, [this](uint32_t index) { return was_told(index); });
  const auto access = is_get() ? fabric::Access::server_writes : fabric::Access::server_reads;
  auto all = std::make_unique<LentMany>();
  for (size_t w = 0; w < windows_.size(); ++w) {
    if (sizes[w] == 0) continue;
    Window& window = windows_[w];
    const MutableBytes memory = call_.windows[w].subspan(window.from, window.to - window.from);
    Result<std::unique_ptr<fabric::Lent>> lent = fail(Errc::unsupported);
    if (const NativeMemory* const on = call_.device(w); on != nullptr) {
      // Places that were told belong to the caller again, and there is no other place for a device's bytes.
      if (aside) return fail(Errc::unsupported, "batch: the rest goes another way");
      lent = on->peer() != nullptr
                 ? on->peer()->lend(body.link, memory, access)
                 : lend_device(body.link, *on->device(), queue_.device_numbers[w], memory, access, device.unfinished);
      if (!lent) return std::unexpected(lent.error());
    } else if (!aside) {
      lent = body.link.lend(memory, access);
    }
    if (!lent) {
      VB_ASSIGN(window.staged, body.staging.take(body.link, sizes[w]));
      blocks_.push_back(window.staged);
      if (is_put()) {
        for (size_t i = 0; i < items_.size(); ++i) {
          const BatchItem& item = call_.items[items_[i]];
          if (in_message(item) || item.window != w) continue;
          copy_bytes(window.staged->data() + staged_at_[i], call_.windows[w].data() + item.offset, item.size);
        }
      }
      lent = body.link.lend(window.staged->first(sizes[w]), access);
      if (!lent) return std::unexpected(lent.error());
    }
    window.number = static_cast<uint8_t>(head.windows.count);
    if (!head.windows.add(wire_descriptor((*lent)->descriptor()))) return fail(Errc::invalid_request, "batch: windows");
    all->add(std::move(*lent));
  }
  if (head.windows.count != 0) this->lent = std::move(all);
  return {};
}

Result<void> ManyMessage::lend_progress(NativeStream::Body& body, wire::BatchHead& head) {
  VB_ASSIGN(progress_, body.staging.take(body.link, progress_size));
  blocks_.push_back(progress_);
  const MutableBytes word = progress_->first(progress_size);
  std::memset(word.data(), 0, word.size());
  VB_ASSIGN(auto lent, body.link.lend(word, fabric::Access::server_writes));
  head.progress_window = static_cast<uint8_t>(head.windows.count);
  if (!head.windows.add(wire_descriptor(lent->descriptor()))) return fail(Errc::invalid_request, "batch: windows");
  auto all = std::make_unique<LentMany>();
  all->add(std::move(lent));
  if (this->lent != nullptr) all->add(std::move(this->lent));
  this->lent = std::move(all);
  return {};
}

Result<void> ManyMessage::encode(NativeStream::Body& body, const wire::BatchHead& head) {
  wire::BatchWriter batch(body.out, call_.type);
  if (!batch.begin(head)) return fail(Errc::unsupported, "batch: buckets and windows exceed a message");
  wire::BatchItem out;
  std::string crc, ttl;
  for (size_t i = 0; i < items_.size(); ++i) {
    const BatchItem& item = call_.items[items_[i]];
    const bool carried = in_message(item);
    out.fields = 0;
    out.bucket = bucket_numbers_[i];
    out.key = item.key;
    if ((is_get() || is_put()) && !carried) {
      const Window& window = windows_[item.window];
      out.fields |= wire::field_place;
      out.place = {window.number, window.staged != nullptr ? staged_at_[i] : item.offset - window.from, item.size};
    }
    if (item.range && !is_put() && call_.type != wire::Type::delete_many) {
      out.fields |= wire::field_range;
      out.range = {item.range->offset,
                   item.range->length == 0 ? wire::open_end : item.range->offset + item.range->length - 1};
    }
    if (!item.version_id.empty() && !is_put()) out.fields |= wire::field_version, out.version = item.version_id;
    if (!item.if_match.empty()) out.fields |= wire::field_if_match, out.if_match = item.if_match;
    if (!item.if_none_match.empty() && call_.type != wire::Type::delete_many) {
      out.fields |= wire::field_if_none_match;
      out.if_none_match = item.if_none_match;
    }
    if (is_put()) {
      const Bytes bytes = Bytes(call_.windows[item.window]).subspan(item.offset, item.size);
      out.headers.count = 0;
      out.expected.reset();
      if (call_.checked) {
        crc = raw_crc32c(bytes);
        out.expected = wire::ChecksumView{Algorithm::crc32c, 0, crc};
      }
      if (!item.content_type.empty()) out.headers.add({"content-type", item.content_type});
      if (item.ttl.count() != 0) {
        ttl = std::to_string(item.ttl.count());
        out.headers.add({"x-verbena-ttl", ttl});
      }
      if (out.expected || out.headers.count != 0) out.fields |= wire::field_stored;
      if (carried) out.fields |= wire::field_inline, out.inline_bytes = bytes;
    }
    if (!batch.add(out)) {
      if (i == 0) return fail(Errc::unsupported, "batch: an item exceeds a message");
      // The estimate was too high: the remaining items go with the next message.
      while (items_.size() > i) {
        queue_.items.push_front(items_.back());
        items_.pop_back();
      }
      break;
    }
  }
  batch.finish();
  return {};
}

Result<void> ManyMessage::answered(Bytes body) {
  auto reply = wire::decode_batch_reply(body);
  const Error bad{.code = Errc::malformed, .sys = 0, .context = "native: batch reply"};
  if (!reply || reply->details != details_of(call_) || reply->answered > items_.size()) return std::unexpected(bad);
  // A reply that answers nothing would make us repeat the request for ever.
  if (reply->answered == 0) return std::unexpected(bad);
  if (call_.take != nullptr) VB_TRY(take_lease(reply->entries.u64()));
  wire::BatchEntry entry;
  for (size_t i = 0; i < reply->answered; ++i) {
    if (!wire::next_entry(*reply, entry)) return std::unexpected(bad);
    VB_TRY(take(items_[i], entry, staged_at_.empty() ? 0 : staged_at_[i]));
    answered_ = i + 1;
  }
  if (reply->entries.left() != 0) return std::unexpected(bad);
  return {};
}

// A lease that had to be joined and was not has ended, and with it what it held.
Result<void> ManyMessage::take_lease(uint64_t id) {
  if (joins_ != 0 && id != joins_) return fail(Errc::timed_out, "native: the lease ended before the batch did");
  if (id == 0) return {};
  call_.take->lease = ClientLease::make(queue_.stream->endpoint().core, id);
  return {};
}

// Runs under the stream's lock, while the message is valid.
Result<void> ManyMessage::take(uint32_t index, const wire::BatchEntry& entry, uint64_t staged_at) {
  const BatchItem& item = call_.items[index];
  BatchResult& result = call_.results[index];
  if (entry.code != Errc::ok) {
    result.error = from_error({.code = entry.code, .sys = 0, .context = ""}, "").code;
    // The server itself does not know whether the change happened.
    const bool changes = is_put() || call_.type == wire::Type::delete_many;
    if (changes && entry.code == Errc::service_unavailable) result.error = ErrorCode::outcome_unknown;
    result.bytes = result.size = 0;
    result.etag.clear();
    result.version_id.clear();
    result.checksum.clear();
    result.device_verified = DeviceVerified::none;
    return {};
  }
  result.error.reset();
  result.size = entry.object_size;
  result.bytes = is_get() || is_put() ? entry.length : 0;
  result.etag.assign(entry.etag);
  result.version_id.assign(entry.version);
  result.last_modified = std::chrono::system_clock::time_point(std::chrono::microseconds(entry.modified_us));
  result.checksum.clear();
  result.device_verified = DeviceVerified::none;
  if (!is_get()) return {};
  if (call_.tell_checksums && entry.checksum && entry.checksum->parts == 0 && !entry.partial) {
    result.checksum =
        std::string(to_string(entry.checksum->algorithm)) + ":" + to_base64(as_bytes(entry.checksum->value));
  }
  const bool carried = in_message(item);
  // The server does not know the sizes of places for bytes inside the reply: the check is made here.
  if (carried && entry.in_reply && entry.length > item.size) {
    result.error = ErrorCode::buffer_too_small;
    result.bytes = 0;
    return {};
  }
  if (entry.length > item.size || (carried && !entry.in_reply && entry.length != 0)) {
    return fail(Errc::malformed, "native: more bytes than fit");
  }
  if (entry.in_reply && entry.length != 0 && !call_.devices.empty()) {
    return fail(Errc::malformed, "native: inline bytes for a device");
  }
  if (was_told(index)) return {};
  const MutableBytes place = call_.windows[item.window].subspan(item.offset, entry.length);
  if (entry.in_reply) {
    copy_bytes(place.data(), entry.inline_bytes.data(), place.size());
  } else if (!carried && windows_[item.window].staged != nullptr && !place.empty()) {
    copy_bytes(place.data(), windows_[item.window].staged->data() + staged_at, place.size());
  }
  if (call_.verify && entry.checksum && !entry.partial) {
    checks_.push_back({index, entry.checksum->algorithm, std::string(entry.checksum->value)});
  }
  return {};
}

// What a device may still copy must not be repeated by another way.
void ManyMessage::note_unfinished() {
  for (size_t i = 0; i < answered_; ++i) {
    BatchResult& result = call_.results[items_[i]];
    if (result.error == ErrorCode::server_error) result.error = ErrorCode::timed_out;
  }
}

void ManyMessage::release_blocks(bool reusable) {
  for (Window& window : windows_) window.staged.reset();
  progress_.reset();
  for (auto& block : blocks_) queue_.stream->release(std::move(block), reusable);
  blocks_.clear();
}

void ManyMessage::withdraw() {
  queue_.stream->abandon(*this);
  release_blocks(false);
}

void ManyMessage::note_told(size_t leading) {
  if (!call_.verify || !tells_arrived()) return;
  for (; noted_ < items_.size() && items_[noted_] < leading; ++noted_) {
    const uint32_t index = items_[noted_];
    if (was_told(index)) continue;
    const BatchItem& item = call_.items[index];
    const Bytes place = Bytes(call_.windows[item.window]).subspan(item.offset, item.size);
    Digest crc32c(Algorithm::crc32c), crc64nvme(Algorithm::crc64nvme);
    crc32c.update(place);
    crc64nvme.update(place);
    early_.push_back({index, crc32c.finish(), crc64nvme.finish()});
  }
}

// Of an item that was reported before its answer came, by what was taken then. True where that is not known: an object
// smaller than its place, or with another algorithm's checksum.
bool ManyMessage::check(const Check& one) const {
  const BatchItem& item = call_.items[one.item];
  const uint64_t bytes = call_.results[one.item].bytes;
  if (one.item < call_.told) {
    const auto early = std::ranges::lower_bound(early_, one.item, {}, &EarlyDigests::item);
    if (early == early_.end() || early->item != one.item || bytes != item.size) return true;
    if (one.algorithm == Algorithm::crc32c) return early->crc32c == one.digest;
    return one.algorithm != Algorithm::crc64nvme || early->crc64nvme == one.digest;
  }
  Digest digest(one.algorithm);
  digest.update(Bytes(call_.windows[item.window]).subspan(item.offset, bytes));
  return digest.finish() == one.digest;
}

Result<void> ManyMessage::settle() {
  if (device.unfinished) note_unfinished();
  release_blocks(outcome.has_value());
  for (const Check& one : checks_) {
    if (!check(one)) call_.results[one.item].error = ErrorCode::checksum_mismatch;
  }
  for (size_t i = 0; i < answered_; ++i) call_.answered[items_[i]] = 1;
  for (size_t i = items_.size(); i > answered_; --i) {
    if (call_.may_ask_again(items_[i - 1])) queue_.items.push_front(items_[i - 1]);
  }
  return outcome;
}

// Staged bytes are not in their place yet.
bool ManyMessage::tells_arrived() const {
  return progress_ != nullptr &&
         std::ranges::none_of(windows_, [](const Window& window) { return window.staged != nullptr; });
}

uint64_t ManyMessage::bytes_from(size_t first) const {
  uint64_t bytes = 0;
  for (size_t i = first; i < items_.size(); ++i) bytes += call_.items[items_[i]].size;
  return bytes;
}

size_t ManyMessage::arrived() const {
  if (!tells_arrived()) return 0;
  // The server writes the word atomically, after the bytes that it counts.
  auto& word = *reinterpret_cast<uint64_t*>(progress_->data());
  return std::min<size_t>(std::atomic_ref<uint64_t>(word).load(std::memory_order_acquire), items_.size());
}

}  // namespace verbena::client
