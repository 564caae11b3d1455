// The client's side of a sealed connection.
#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/copy.h"
#include "fabric/sealed/channel.h"
#include "fabric/sealed/sealed.h"

namespace verbena::fabric::sealed {
namespace {

// Answers up to this travel inside a message.
constexpr size_t answer_inside_max = 8 * KiB;
// Of answers that the transport has not taken: a server asks for eight parts at a time.
constexpr size_t waiting_bytes_bound = 1 * MiB;

const Error forged{.code = Errc::closed, .sys = 0, .context = "sealed: what arrived was forged or changed on its way"};

// The memory that is lent, by its number. Its owners may withdraw it on other threads than the link's.
struct LentMemory {
  struct Part {
    MutableBytes bytes;
    Access access;
  };
  std::mutex mutex;
  std::unordered_map<uint64_t, Part> parts;
  uint64_t last = 0;

  // Calls `use` with the bytes of a place, if they are lent for that. While it runs they cannot be withdrawn.
  template <class Use>
  bool with(const Place& place, Access access, Use use) {
    const std::lock_guard lock(mutex);
    const auto it = parts.find(place.key);
    if (it == parts.end() || it->second.access != access) return false;
    const MutableBytes bytes = it->second.bytes;
    if (place.offset > bytes.size() || place.length > bytes.size() - place.offset) return false;
    use(bytes.subspan(place.offset, place.length));
    return true;
  }
};

// Nothing of it is known below: only this link puts bytes there.
class SealedLent final : public Lent {
 public:
  SealedLent(std::shared_ptr<LentMemory> memory, MutableBytes bytes, Access access)
      : memory_(std::move(memory)), bytes_(bytes) {
    const std::lock_guard lock(memory_->mutex);
    descriptor_ = {.base = 0, .size = bytes.size(), .key = ++memory_->last};
    memory_->parts.emplace(descriptor_.key, LentMemory::Part{bytes, access});
  }
  ~SealedLent() override { withdraw(); }
  const WindowDescriptor& descriptor() const override { return descriptor_; }
  MutableBytes bytes() const override { return bytes_; }
  void revoke() override { withdraw(); }

 private:
  void withdraw() {
    const std::lock_guard lock(memory_->mutex);
    memory_->parts.erase(descriptor_.key);
  }

  std::shared_ptr<LentMemory> memory_;
  MutableBytes bytes_;
  WindowDescriptor descriptor_;
};

// A ring as the client has it.
struct Ring {
  std::shared_ptr<MutableBytes> memory;
  std::unique_ptr<Lent> lent;
  MutableBytes segment(size_t i) const { return memory->subspan(i * segment_size, segment_size); }
};

class SealedLink final : public Link {
 public:
  SealedLink(std::unique_ptr<Link> below, uint64_t session, const ConnectionKey& key, const Salt& salt,
             unsigned epoch_bits, uint64_t numbers_max)
      : below_(std::move(below)),
        channel_(session, derive(key, salt, Side::client, epoch_bits), salt, below_->message_size_max(), numbers_max) {}

  std::string_view provider() const override { return below_->provider(); }
  std::string address() const override { return below_->address(); }
  size_t message_size_max() const override { return below_->message_size_max() - envelope_overhead; }

  Result<void> send(Bytes message) override {
    if (broken_) return closed();
    auto sent = channel_.send(message, {}, transmit());
    if (!sent && sent.error() != Errc::would_block) broken_ = sent.error();
    return sent;
  }

  Result<size_t> poll(const OnMessage& handler) override {
    if (broken_) return closed();
    // Taken first: the link below must not be used while it hands over a message.
    VB_ASSIGN(const size_t events,
              below_->poll([this](Bytes message) { arrived_.emplace_back(message.begin(), message.end()); }));
    while (!arrived_.empty() && !broken_) {
      const std::vector<std::byte> message = std::move(arrived_.front());
      arrived_.pop_front();
      if (take(message, handler) && channel_.waiting_bytes() <= waiting_bytes_bound) continue;
      if (!broken_) broken_ = forged;
    }
    if (broken_) return closed();
    if (auto flushed = channel_.flush(transmit()); !flushed && flushed.error() != Errc::would_block) {
      broken_ = flushed.error();
      return closed();
    }
    return events;
  }

  void wait(Deadline deadline) override {
    if (broken_ || !arrived_.empty()) return;
    below_->wait(channel_.has_waiting() ? std::min(deadline, deadline_in(std::chrono::microseconds(100))) : deadline);
  }
  void wake() override { below_->wake(); }

  Result<std::unique_ptr<Lent>> lend(MutableBytes memory, Access access) override {
    if (broken_) return closed();
    VB_TRY(lend_rings());
    return std::make_unique<SealedLent>(lent_, memory, access);
  }
  Result<std::shared_ptr<MutableBytes>> allocate(size_t size) override { return below_->allocate(size); }

 private:
  // What broke the link, as each later call has it.
  std::unexpected<Error> closed() const { return fail(Errc::closed, broken_->context, broken_->sys); }

  Channel::Transmit transmit() {
    return [this](Bytes envelope) { return below_->send(envelope); };
  }

  // Once, before the first memory is lent: a session of small requests needs no rings.
  Result<void> lend_rings() {
    if (up_.lent != nullptr) return {};
    const auto open = [this](Ring& ring, Access access) -> Result<void> {
      VB_ASSIGN(ring.memory, below_->allocate(ring_size));
      VB_ASSIGN(ring.lent, below_->lend(*ring.memory, access));
      return {};
    };
    Ring below_down, below_up;
    VB_TRY(open(below_down, Access::server_writes));
    VB_TRY(open(below_up, Access::server_reads));
    down_ = std::move(below_down), up_ = std::move(below_up);
    const WindowDescriptor &down = down_.lent->descriptor(), &up = up_.lent->descriptor();
    std::vector<std::byte> body;
    encode(Rings{.down_base = down.base, .down_key = down.key, .up_base = up.base, .up_key = up.key}, body);
    channel_.queue(Kind::rings, std::move(body));
    return {};
  }

  // False: the message is not the server's next one, or says what cannot be. A record that cannot be opened ends the
  // link, too: the answer that follows would count on it.
  bool take(Bytes message, const OnMessage& handler) {
    const auto header = decode_header(message);
    if (!header) return false;
    const auto opened = channel_.open(*header, message);
    if (!opened) return false;
    switch (opened->kind) {
      case Kind::message:
        handler(opened->body);
        return true;
      case Kind::records:
        return take_records(opened->body);
      case Kind::want:
        return answer(opened->body);
      case Kind::taken: {
        const auto segment = decode_segment(opened->body);
        if (segment) free_segments_.give_back(*segment);
        return segment.has_value();
      }
      default:
        return false;
    }
  }

  bool take_records(Bytes body) {
    while (!body.empty()) {
      const auto record = take_record(body);
      if (!record || !(record->inside ? take_inside(*record) : take_segment(*record))) return false;
    }
    return true;
  }

  // What was withdrawn meanwhile is skipped: no request waits for it any more.
  bool take_inside(const Record& record) {
    lent_->with(record.place, Access::server_writes, [&](MutableBytes into) { put(*record.inside, into); });
    return true;
  }

  // A word is written as one, for callers that watch it.
  static void put(Bytes from, MutableBytes into) {
    if (from.size() == sizeof(uint64_t) && reinterpret_cast<uintptr_t>(into.data()) % sizeof(uint64_t) == 0) {
      uint64_t word;
      std::memcpy(&word, from.data(), sizeof word);
      __atomic_store_n(reinterpret_cast<uint64_t*>(into.data()), word, __ATOMIC_RELEASE);
    } else {
      copy_bytes(into.data(), from);
    }
  }

  bool take_segment(const Record& record) {
    if (down_.memory == nullptr) return false;
    const Bytes ring = Bytes(down_.segment(record.segment)).first(record.place.length);
    const bool opened = channel_.open_shared(record.place, record.seals, ring, [this](const Place& part, Bytes plain) {
      lent_->with(part, Access::server_writes, [&](MutableBytes into) { put(plain, into); });
    });
    if (!opened) return false;
    std::vector<std::byte> body;
    encode_segment(record.segment, body);
    channel_.queue(Kind::freed, std::move(body));
    return true;
  }

  // False also where the numbers of records are used up, which `broken_` then says: a new session has others.
  bool answer(Bytes body) {
    const auto want = decode_want(body);
    if (!want) return false;
    Ready ready;
    ready.id = want->id;
    std::vector<std::byte> out;
    bool sealed = true;
    const bool lent = lent_->with(want->place, Access::server_reads, [&](MutableBytes from) {
      if (from.size() <= answer_inside_max) {
        ready.inside = from;
      } else if (!free_segments_.none() && up_.memory != nullptr) {
        ready.segment = free_segments_.take();
        auto seals = channel_.seal_records(want->place, from, up_.segment(ready.segment).data());
        sealed = seals.has_value();
        if (!sealed) broken_ = seals.error();
        if (sealed) ready.seals = std::move(*seals);
      } else {
        ready.refused = true;
      }
      encode(ready, out);
    });
    if (!sealed) return false;
    if (!lent) {
      ready.refused = true;
      encode(ready, out);
    }
    channel_.queue(Kind::ready, std::move(out));
    return true;
  }

  std::unique_ptr<Link> below_;
  Channel channel_;
  std::shared_ptr<LentMemory> lent_ = std::make_shared<LentMemory>();
  Ring down_, up_;
  FreeSegments free_segments_;  // of `up`
  std::deque<std::vector<std::byte>> arrived_;
  std::optional<Error> broken_;  // since what
};

}  // namespace

std::unique_ptr<Link> seal(std::unique_ptr<Link> below, uint64_t session, const ConnectionKey& key, unsigned epoch_bits,
                           uint64_t numbers_max) {
  Salt salt;
  fill_random(salt);
  return std::make_unique<SealedLink>(std::move(below), session, key, salt, epoch_bits, numbers_max);
}

}  // namespace verbena::fabric::sealed
