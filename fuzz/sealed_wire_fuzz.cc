// Sealed RDMA on a wire that belongs to an attacker without keys. The first byte's lowest bit selects the case.
//
// - A connection: a real server and a real client (fabric/sealed), and an attacker who changes, drops, repeats,
// reorders,
//   cuts and inserts messages and writes into what crosses and into the rings. Both hear what the other one said, in
//   order, or less; a record in the client's memory is whole and right, or not there; a read that succeeded has the
//   client's bytes. Without an attack everything succeeds.
// - The records of one transfer (sealed tokens): what opens is what was sealed there.
#include "fabric/sealed/transfer.h"
#include "support/sealed_steps.h"

using namespace verbena;        // NOLINT: a fuzzer's main file
using namespace verbena::fuzz;  // NOLINT

namespace {

constexpr size_t inside_max = 4 * KiB;  // of a write, in a message

struct Attack {
  uint8_t how = 0;
  uint32_t at = 0;
  uint8_t value = 0;
  Message inserted, last, held;

  std::vector<Message> on(Message message) {
    std::vector<Message> out;
    const Message before = std::exchange(last, message);
    switch (std::exchange(how, 0)) {
      case 1:
        message[at % message.size()] ^= static_cast<std::byte>(value | 1);
        break;
      case 2:
        return out;
      case 3:
        out.push_back(message);
        break;
      case 4:
        held = message;
        return out;
      case 5:
        if (!before.empty()) message = before;
        break;
      case 6:
        message.resize(at % message.size());
        break;
      case 7:
        out.push_back(inserted);
        break;
      default:
        break;
    }
    out.push_back(std::move(message));
    if (!held.empty()) out.push_back(std::exchange(held, {}));
    return out;
  }
};

// The server's write of the pattern into memory of the client's.
struct Get {
  std::vector<std::byte> memory;
  std::unique_ptr<Lent> lent;
  std::shared_ptr<Move> move;
  size_t at = 0, size = 0;

  // Records are whole and right, or not there.
  void check(bool complete) const {
    require(all_untouched(Bytes(memory).first(at)));
    require(all_untouched(Bytes(memory).subspan(at + size)));
    for (size_t from = 0; from < size;) {
      const size_t left = size - from, in_segment = segment_size - from % segment_size;
      const size_t n =
          left <= inside_max && from % segment_size == 0 ? left : std::min({record_size_max, in_segment, left});
      const Bytes part = Bytes(memory).subspan(at + from, n);
      require(same(part, pattern(from, n)) || (!complete && all_untouched(part)));
      from += n;
    }
  }
};
struct Put {
  std::unique_ptr<Lent> lent;
  std::shared_ptr<Move> move;
  size_t at = 0, size = 0;
};

class BothEnds {
 public:
  explicit BothEnds(const Settings& settings) : server_(wire_, settings) {
    wire_.to_server = [this](Message message) { return to_server_.on(std::move(message)); };
    wire_.to_client = [this](Message message) { return to_client_.on(std::move(message)); };
    wire_.written = [this](MutableBytes bytes) { touch(bytes, written_); };
    wire_.read = [this](MutableBytes bytes) { touch(bytes, read_); };
    client_ = seal(std::make_unique<WireLink>(wire_, world().core, server_.below), session, settings.key,
                   settings.epoch_bits);
    send(as_bytes("hello"));
    settle();
    require(heard_.size() == 1);
  }
  ~BothEnds() {
    settle();
    puts_.clear();
    for (Get& get : gets_) get.lent.reset();
  }

  void take(const Step& step) {
    Numbers numbers(step.bytes);
    switch (step.what % 9) {
      case 0:
        send(step.bytes);
        break;
      case 1:
        get(numbers);
        break;
      case 2:
        put(numbers);
        break;
      case 3:
        attack(to_server_, step.how, numbers);
        break;
      case 4:
        attack(to_client_, step.how, numbers);
        break;
      case 5:
        written_.emplace_back(step.bytes.begin(), step.bytes.end());
        attacked_ = true;
        break;
      case 6:
        read_.emplace_back(step.bytes.begin(), step.bytes.end());
        attacked_ = true;
        break;
      case 7:
        scribble(step.how, numbers);
        break;
      default:
        withdraw(step.how);
    }
    // Some steps come before what the ones before them began has ended.
    if ((step.how & 0x80) == 0) settle();
    check();
  }

 private:
  void send(Bytes message) {
    if (client_->send(message)) sent_.emplace_back(message.begin(), message.end());
  }
  void settle() {
    for (int i = 0; i < 200; ++i) {
      size_t events = turn();
      const auto polled = client_->poll([this](Bytes message) { heard_.emplace_back(message.begin(), message.end()); });
      if (polled) events += *polled;
      if (events == 0) return;
    }
  }
  void get(Numbers& numbers) {
    if (gets_.size() >= transfers_max) return;
    Get get;
    get.size = 1 + numbers.below(object_max);
    get.at = numbers.next<uint8_t>();
    get.memory.assign(get.at + get.size + numbers.next<uint8_t>(), untouched);
    auto lent = client_->lend(get.memory, Access::server_writes);
    if (!lent) return;
    get.lent = std::move(*lent);
    send(as_bytes("a GET"));  // brings the rings
    settle();
    get.move = server_.start(get.lent->descriptor(), Access::server_writes, get.size, get.at);
    if (get.move == nullptr) return;
    gets_.push_back(std::move(get));
  }
  void put(Numbers& numbers) {
    if (puts_.size() >= transfers_max) return;
    Put put;
    put.size = 1 + numbers.below(object_max);
    put.at = numbers.next<uint8_t>();
    const size_t lends = std::min(put.at + put.size, object_max);
    put.size = lends - std::min<size_t>(put.at, lends - 1);
    put.at = lends - put.size;
    auto lent = client_->lend(MutableBytes(world().pattern).first(lends), Access::server_reads);
    if (!lent) return;
    put.lent = std::move(*lent);
    send(as_bytes("a PUT"));
    settle();
    put.move = server_.start(put.lent->descriptor(), Access::server_reads, put.size, put.at);
    if (put.move == nullptr) return;
    puts_.push_back(std::move(put));
  }
  void attack(Attack& attack, uint8_t how, Numbers& numbers) {
    attack.how = static_cast<uint8_t>(1 + (how & 0x7f) % 7);
    attack.at = numbers.next<uint32_t>();
    attack.value = numbers.next<uint8_t>();
    attack.inserted.assign(numbers.rest().begin(), numbers.rest().end());
    attacked_ = true;
  }
  static void touch(MutableBytes bytes, std::vector<Message>& changes) {
    if (changes.empty()) return;
    Numbers numbers(changes.front());
    while (!numbers.rest().empty()) changed(bytes, numbers);
    changes.erase(changes.begin());
  }
  void scribble(uint8_t which, Numbers& numbers) {
    if (wire_.regions.empty()) return;
    auto region = wire_.regions.begin();
    std::advance(region, (which & 0x7f) % wire_.regions.size());
    changed(region->second.bytes, numbers);
    attacked_ = true;
  }
  void withdraw(uint8_t which) {
    if (gets_.empty()) return;
    Get& get = gets_[(which & 0x7f) % gets_.size()];
    get.lent.reset();
    withdrawn_ = true;
    std::ranges::fill(get.memory, untouched);
  }

  void check() {
    require(heard_.size() <= server_.said.size() && std::equal(heard_.begin(), heard_.end(), server_.said.begin()));
    require(server_.heard.size() <= sent_.size() &&
            std::equal(server_.heard.begin(), server_.heard.end(), sent_.begin()));
    for (const Get& get : gets_) {
      if (get.lent == nullptr) {
        require(all_untouched(get.memory));
        continue;
      }
      const bool ended = get.move->outcome.has_value() && get.move->outcome->has_value();
      // What the server has written is there once the client hears the message after it.
      bool complete = false;
      if (ended && client_ != nullptr) {
        const size_t before = server_.said.size();
        server_.say(as_bytes("done"));
        settle();
        complete = server_.said.size() > before && heard_.size() == server_.said.size();
        require(complete || attacked_);
      }
      require(ended || attacked_ || withdrawn_ || !get.move->outcome.has_value());
      get.check(complete);
    }
    for (const Put& put : puts_) {
      if (!put.move->outcome || !*put.move->outcome) {
        require(!put.move->outcome || attacked_);
        continue;
      }
      require(same(put.move->lease.bytes().first(put.size), pattern(put.at, put.size)));
    }
  }

  Wire wire_;
  Server server_;
  std::unique_ptr<Link> client_;
  Attack to_server_, to_client_;
  std::vector<Message> written_, read_;  // changes of the next operations' bytes
  std::vector<Message> sent_, heard_;    // of the client
  std::vector<Get> gets_;
  std::vector<Put> puts_;
  bool attacked_ = false, withdrawn_ = false;
};

void fuzz_wire(Steps steps, const Settings& settings) {
  BothEnds ends(settings);
  Step step;
  while (steps.next(step)) ends.take(step);
}

// The records of one transfer.
void fuzz_transfer(Steps steps, const Settings& settings) {
  Step step;
  if (!steps.next(step)) return;
  Numbers numbers(step.bytes);
  const size_t size = 1 + numbers.below(object_max), piece = 1 + numbers.below(object_max);
  const WindowDescriptor lent{numbers.next<uint64_t>(), size, numbers.next<uint64_t>()};
  const Direction direction = (step.how & 1) != 0 ? Direction::to_server : Direction::to_client;
  std::vector<std::byte> bytes(size + trailer_size(size));
  const MutableBytes trailer = MutableBytes(bytes).subspan(size);
  Transfer sender(settings.key, Salt{}, direction, lent, size);
  sender.keep_tags_in(trailer);
  for (size_t at = 0; at < size; at += piece) {
    sender.seal(pattern(at, std::min(piece, size - at)), bytes.data() + at);
  }
  bool touched = false;
  while (steps.next(step)) {
    Numbers changes(step.bytes);
    if (step.what % 2 == 0) {
      touched |= changed(bytes, changes);
    } else {  // two records, or their tags, change places
      const size_t unit = (step.how & 1) != 0 ? record_size_max : aead_tag_size;
      const MutableBytes all = (step.how & 1) != 0 ? MutableBytes(bytes).first(size) : trailer;
      const size_t whole = all.size() / unit;
      if (whole < 2) continue;
      const size_t a = changes.below(whole), b = changes.below(whole);
      if (a == b) continue;
      std::ranges::swap_ranges(all.subspan(a * unit, unit), all.subspan(b * unit, unit));
      touched = true;
    }
  }
  Transfer receiver(settings.key, Salt{}, direction, lent, size);
  receiver.keep_tags_in(trailer);
  for (size_t i = 0; i < receiver.records(); ++i) {
    const MutableBytes record = MutableBytes(bytes).subspan(i * record_size_max, receiver.size_of(i));
    if (receiver.open(i, record, record.data())) {
      require(same(record, pattern(i * record_size_max, record.size())));
    } else {
      require(touched && std::ranges::all_of(record, [](std::byte byte) { return byte == std::byte{0}; }));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Settings settings(data[0]);
  const Steps steps(std::as_bytes(std::span(data, size)).subspan(1));
  if ((data[0] & 1) == 0) {
    fuzz_wire(steps, settings);
  } else {
    fuzz_transfer(steps, settings);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  return mutate_steps(data, size, size_max, seed, [](Chance& chance) {
    return OwnStep{static_cast<uint8_t>(chance.below(9)), static_cast<uint8_t>(chance.below(256)),
                   mutated_bytes({}, 16)};
  });
}
