#include "fabric/sealed/channel.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>

#include "base/copy.h"

namespace verbena::fabric::sealed {
namespace {

constexpr size_t waiting_overhead = 64;  // of a queued message, besides its bytes

const Error used_up{.code = Errc::closed, .sys = 0, .context = "sealed: the connection's numbers are used up"};

// Of the thread, not of each connection: thousands may be idle.
thread_local std::vector<std::byte> outgoing, incoming, shared_record;

size_t start_of_body(Kind kind) { return Header::size + (kind == Kind::open ? salt_size : 0); }

// What is to be sealed, in one piece: two are joined at `place`.
Bytes joined(Bytes first, Bytes second, std::byte* place) {
  if (second.empty()) return first;
  copy_bytes(place, first);
  copy_bytes(place + first.size(), second);
  return {place, first.size() + second.size()};
}

}  // namespace

Result<void> Channel::transmit(Kind kind, Bytes first, Bytes second, const Transmit& transmit) {
  if (sent_ == numbers_max_) return std::unexpected(used_up);
  // The first envelope opens the connection, and is a message: queued ones wait for it.
  if (salt_) kind = Kind::open;
  const size_t start = start_of_body(kind), size = start + first.size() + second.size() + aead_tag_size;
  if (size > envelope_size_max_) return fail(Errc::too_large, "sealed: the message is too long");
  if (outgoing.size() < size) outgoing.resize(envelope_size_max_);
  std::byte* const out = outgoing.data();
  encode(Header{.kind = kind, .session = session_, .sequence = sent_ + 1}, out);
  if (salt_) std::memcpy(out + Header::size, salt_->data(), salt_size);
  AeadTag tag;
  const Bytes plain = joined(first, second, out + start);
  ciphers_.messages_out.seal(sent_ + 1, Bytes(out, start), plain, out + start, tag);
  std::memcpy(out + size - aead_tag_size, tag.data(), tag.size());
  // An envelope that was not sent is sealed again under its number. Only one of them leaves this machine.
  if (auto sent = transmit(Bytes(out, size)); !sent) {
    // Whether something left is not known: its number must not come again.
    if (sent.error() != Errc::would_block) sent_ = numbers_max_;
    return sent;
  }
  ++sent_;
  salt_.reset();
  return {};
}

Result<void> Channel::send(Bytes first, Bytes second, const Transmit& transmit) {
  if (!salt_) VB_TRY(flush(transmit));
  return this->transmit(Kind::message, first, second, transmit);
}

void Channel::queue(Kind kind, std::vector<std::byte> body) {
  waiting_bytes_ += body.size() + waiting_overhead;
  waiting_.emplace_back(kind, std::move(body));
}

Result<void> Channel::flush(const Transmit& transmit) {
  while (!waiting_.empty()) {
    if (salt_) return fail(Errc::would_block, "sealed: the connection is not open yet");
    const auto& [kind, body] = waiting_.front();
    VB_TRY(this->transmit(kind, body, {}, transmit));
    waiting_bytes_ -= body.size() + waiting_overhead;
    waiting_.pop_front();
  }
  return {};
}

void Channel::close() {
  waiting_.clear();
  waiting_bytes_ = 0;
  sent_ = records_ = numbers_max_;
}

std::optional<Channel::Opened> Channel::open(const Header& header, Bytes envelope) {
  const size_t start = start_of_body(header.kind);
  if (header.session != session_ || header.sequence != seen_ + 1 || envelope.size() < start + aead_tag_size)
    return std::nullopt;
  if ((header.kind == Kind::open) != (peer_opens_ && seen_ == 0)) return std::nullopt;
  const Bytes sealed = envelope.subspan(start, envelope.size() - start - aead_tag_size);
  if (incoming.size() < sealed.size()) incoming.resize(sealed.size());
  if (!ciphers_.messages_in.open(header.sequence, envelope.first(start), sealed, envelope.last(aead_tag_size),
                                 incoming.data()))
    return std::nullopt;
  ++seen_;
  return Opened{header.kind == Kind::open ? Kind::message : header.kind, Bytes(incoming).first(sealed.size())};
}

Result<Seals> Channel::seal_records(const Place& place, Bytes plain, std::byte* out) {
  if (records_of(place.length) > numbers_max_ - records_) return std::unexpected(used_up);
  Seals seals{.first = records_, .tags = std::vector<AeadTag>(records_of(place.length))};
  for (size_t i = 0; i < seals.tags.size(); ++i) {
    const Place part = part_of(place, i);
    const size_t at = i * record_size_max;
    ciphers_.records_out.seal(records_++, context_of(part), plain.subspan(at, part.length), out + at, seals.tags[i]);
  }
  return seals;
}

bool Channel::open_records(const Place& place, const Seals& seals, Bytes sealed, std::byte* out) {
  bool opened = sealed.size() == place.length && seals.tags.size() == records_of(place.length);
  for (size_t i = 0; opened && i < seals.tags.size(); ++i) {
    const Place part = part_of(place, i);
    const size_t at = i * record_size_max;
    opened = open_record(part, seals, i, sealed.subspan(at, part.length), out + at);
  }
  if (!opened) OPENSSL_cleanse(out, place.length);
  return opened;
}

// A cipher reads its input twice, for the tag and for the bytes: what changes in between would be taken with a tag that
// is right. So the sealed bytes are copied first, to memory that stays in the processor's cache. And opening writes
// plain bytes before it has compared the tag: where others may look, they come only afterwards.
bool Channel::open_shared(const Place& place, const Seals& seals, Bytes sealed, const TakeRecord& take) {
  if (sealed.size() != place.length || seals.tags.size() != records_of(place.length)) return false;
  shared_record.resize(record_size_max);
  for (size_t i = 0; i < seals.tags.size(); ++i) {
    const Place part = part_of(place, i);
    const MutableBytes record = MutableBytes(shared_record).first(part.length);
    copy_bytes(record.data(), sealed.subspan(i * record_size_max, part.length));
    if (!open_record(part, seals, i, record, record.data())) return false;
    take(part, record);
  }
  return true;
}

bool Channel::open_record(const Place& part, const Seals& seals, size_t i, Bytes sealed, std::byte* out) {
  return seals.first <= numbers_max_default &&
         ciphers_.records_in.open(seals.first + i, context_of(part), sealed, seals.tags[i], out);
}

}  // namespace verbena::fabric::sealed
