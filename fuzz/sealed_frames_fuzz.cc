// Peers of a sealed connection (fabric/sealed) that have its keys and keep to nothing: envelopes open, and what is
// inside is arbitrary. The first byte's lowest bit selects who lies.
//
// - A client: all transfers of the server end with its port, and no memory of the arena is left with them.
// - A server: memory that is not lent does not change, and what the client answers can be opened and is what it lent.
#include <map>

#include "support/sealed_steps.h"

using namespace verbena;        // NOLINT: a fuzzer's main file
using namespace verbena::fuzz;  // NOLINT

namespace {

// A client that has the keys and keeps to nothing.
void fuzz_server(Steps steps, const Settings& settings) {
  Wire wire;
  std::vector<std::byte> down(ring_size), up(ring_size);
  wire.regions[1] = {down, Access::server_writes};
  wire.regions[2] = {up, Access::server_reads};
  Server server(wire, settings);
  Channel client(session, derive(settings.key, Salt{}, Side::client, settings.epoch_bits), Salt{}, envelope_max);
  const Channel::Transmit deliver = [&](Bytes envelope) {
    server.below.receive(0, envelope);
    return Result<void>();
  };
  std::vector<Want> wants;
  const auto hear = [&] {
    for (const Message& message : std::exchange(wire.arrived, {})) {
      const auto header = decode_header(message);
      require(header.has_value());
      const auto opened = client.open(*header, message);
      require(opened.has_value());
      if (opened->kind != Kind::want) continue;
      const auto want = decode_want(opened->body);
      require(want.has_value());
      wants.push_back(*want);
    }
  };
  require(client.send(as_bytes("hello"), {}, deliver).has_value());
  Step step;
  while (steps.next(step)) {
    Numbers numbers(step.bytes);
    switch (step.what % 7) {
      case 0:
        server.below.receive(0, step.bytes);
        break;
      case 1:
        if (step.bytes.size() > envelope_max / 2) break;
        client.queue(static_cast<Kind>(step.how % 10), {step.bytes.begin(), step.bytes.end()});
        break;
      case 2: {  // an answer, as it should be but for what the step changes
        if (wants.empty()) break;
        const Want want = wants.front();
        wants.erase(wants.begin());
        Ready ready{.id = want.id, .refused = false, .inside = std::nullopt, .segment = 0, .seals = {}};
        ready.segment = static_cast<uint8_t>(step.how % segments);
        if ((step.how & 0x40) != 0 && want.place.length <= envelope_max / 2) {
          ready.inside = pattern(0, want.place.length);
        } else {
          std::byte* const place = up.data() + ready.segment * segment_size;
          ready.seals = *client.seal_records(want.place, pattern(0, want.place.length), place);
          changed(MutableBytes(place, want.place.length), numbers);
        }
        std::vector<std::byte> body;
        encode(ready, body);
        changed(body, numbers);
        client.queue(Kind::ready, std::move(body));
        break;
      }
      case 3:
      case 4: {
        const size_t size = 1 + numbers.below(object_max), at = numbers.next<uint16_t>();
        const WindowDescriptor lent{numbers.next<uint8_t>(), at + size + numbers.next<uint8_t>(), step.how};
        server.start(lent, step.what % 7 == 3 ? Access::server_writes : Access::server_reads, size, at);
        break;
      }
      case 5: {
        std::vector<std::byte> body;
        encode(Rings{.down_base = 0, .down_key = 1, .up_base = 0, .up_key = 2}, body);
        changed(body, numbers);
        client.queue(Kind::rings, std::move(body));
        break;
      }
      default:
        client.queue(Kind::freed, {static_cast<std::byte>(step.how)});
    }
    static_cast<void>(client.flush(deliver));
    turn();
    hear();
  }
}

// A server that has the keys and keeps to nothing.
void fuzz_client(Steps steps, const Settings& settings) {
  constexpr size_t window = 128 * KiB, guard = 4 * KiB;
  Wire wire;
  WirePort below(wire);
  std::optional<Channel> server;
  std::optional<Rings> rings;
  std::map<uint32_t, Place> wanted;
  std::vector<std::byte> memory(guard + window + guard, untouched);
  const MutableBytes written_at = MutableBytes(memory).subspan(guard, window);
  const MutableBytes read_at = MutableBytes(world().pattern).first(window);
  const auto ring = [&](uint64_t key, size_t segment) {
    return wire.regions.at(key).bytes.subspan(segment * segment_size, segment_size);
  };
  const auto answered = [&](Bytes body) {
    const auto ready = decode_ready(body);
    require(ready.has_value());
    const auto it = wanted.find(ready->id);
    if (it == wanted.end() || ready->refused) return;
    const Bytes lent = Bytes(read_at).subspan(it->second.offset, it->second.length);
    if (ready->inside) return require(same(*ready->inside, lent));
    std::vector<std::byte> opened(lent.size());
    const Bytes sealed = Bytes(ring(rings->up_key, ready->segment)).first(lent.size());
    require(server->open_records(it->second, ready->seals, sealed, opened.data()) && same(opened, lent));
  };
  below.on_message([&](PeerId, Bytes message) {
    const auto header = decode_header(message);
    require(header.has_value());
    if (!server) {
      Salt salt;
      std::ranges::copy(message.subspan(Header::size, salt_size), salt.begin());
      server.emplace(session, derive(settings.key, salt, Side::server, settings.epoch_bits), std::nullopt,
                     envelope_max);
    }
    const auto opened = server->open(*header, message);
    require(opened.has_value());
    if (opened->kind == Kind::rings) rings = decode_rings(opened->body);
    if (opened->kind == Kind::ready) answered(opened->body);
  });
  auto client = seal(std::make_unique<WireLink>(wire, world().core, below), session, settings.key, settings.epoch_bits);
  const Channel::Transmit deliver = [&](Bytes envelope) {
    wire.arrived.emplace_back(envelope.begin(), envelope.end());
    return Result<void>();
  };
  std::unique_ptr<Lent> writes, reads;
  require(client->send(as_bytes("hello")).has_value());
  turn();
  Step step;
  while (steps.next(step)) {
    Numbers numbers(step.bytes);
    switch (step.what % 8) {
      case 0:
        wire.arrived.emplace_back(step.bytes.begin(), step.bytes.end());
        break;
      case 1:
        if (step.bytes.size() > envelope_max / 2) break;
        server->queue(static_cast<Kind>(step.how % 10), {step.bytes.begin(), step.bytes.end()});
        break;
      case 2: {  // a record, as it should be but for what the step changes
        if (!rings || !writes) break;
        Record record{.place = {}, .inside = std::nullopt, .segment = 0, .seals = {}};
        record.segment = static_cast<uint8_t>(step.how % segments);
        const size_t size = 1 + numbers.below(window), at = numbers.next<uint16_t>();
        record.place = {writes->descriptor().key, at, static_cast<uint32_t>(size)};
        const MutableBytes place = ring(rings->down_key, record.segment).first(size);
        record.seals = *server->seal_records(record.place, pattern(0, size), place.data());
        changed(place, numbers);
        std::vector<std::byte> body;
        encode(record, body);
        changed(body, numbers);
        server->queue(Kind::records, std::move(body));
        break;
      }
      case 3:
        if (auto lent = client->lend(written_at, Access::server_writes)) writes = std::move(*lent);
        break;
      case 4:
        if (auto lent = client->lend(read_at, Access::server_reads)) reads = std::move(*lent);
        break;
      case 5:
        writes.reset();
        std::ranges::fill(memory, untouched);
        break;
      case 6: {
        if (!reads) break;
        const size_t size = 1 + numbers.below(window), at = numbers.below(window - size + 1);
        const Want want{.id = step.how, .place = {reads->descriptor().key, at, static_cast<uint32_t>(size)}};
        std::vector<std::byte> body;
        encode(want, body);
        if (changed(body, numbers)) {
          wanted.erase(want.id);
        } else {
          wanted[want.id] = want.place;
        }
        server->queue(Kind::want, std::move(body));
        break;
      }
      default:
        if (step.bytes.size() <= envelope_max / 2) static_cast<void>(client->send(step.bytes));
    }
    static_cast<void>(server->flush(deliver));
    const auto polled = client->poll([](Bytes) {});
    turn();
    require(all_untouched(Bytes(memory).first(guard)) && all_untouched(Bytes(memory).last(guard)));
    if (!writes) require(all_untouched(written_at));
    if (!polled) return;
  }
}

// A body of one of the connection's own messages.
OwnStep own_message(fuzz::Chance& chance) {
  const Place place{chance.below(4), chance.below(3) * 1000, static_cast<uint32_t>(1 + chance.below(300'000))};
  Seals seals{.first = chance.below(9), .tags = std::vector<AeadTag>(std::min<size_t>(records_of(place.length), 4))};
  std::vector<std::byte> body;
  Kind kind = Kind::freed;
  switch (chance.below(6)) {
    case 0:
      kind = Kind::rings;
      encode(Rings{chance.below(2), 1 + chance.below(2), chance.below(2), 1 + chance.below(2)}, body);
      break;
    case 1:
      kind = Kind::records;
      encode(Record{place, std::nullopt, static_cast<uint8_t>(chance.below(9)), std::move(seals)}, body);
      break;
    case 2: {
      kind = Kind::records;
      const Bytes inside = pattern(0, 1 + chance.below(600));
      encode(Record{{place.key, place.offset, static_cast<uint32_t>(inside.size())}, inside, 0, {}}, body);
      break;
    }
    case 3:
      kind = Kind::want;
      encode(Want{static_cast<uint32_t>(chance.below(5)), place}, body);
      break;
    case 4:
      kind = Kind::ready;
      encode(Ready{static_cast<uint32_t>(1 + chance.below(5)), chance.percent(20), std::nullopt,
                   static_cast<uint8_t>(chance.below(9)), std::move(seals)},
             body);
      break;
    default:
      kind = chance.percent(50) ? Kind::freed : Kind::taken;
      encode_segment(static_cast<uint8_t>(chance.below(9)), body);
  }
  return {1, static_cast<uint8_t>(kind), std::string(as_text(body))};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Settings settings(data[0]);
  const Steps steps(std::as_bytes(std::span(data, size)).subspan(1));
  if ((data[0] & 1) == 0) {
    fuzz_server(steps, settings);
  } else {
    fuzz_client(steps, settings);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  return mutate_steps(data, size, size_max, seed, [](Chance& chance) {
    if (chance.percent(50)) return own_message(chance);
    return OwnStep{static_cast<uint8_t>(chance.below(9)), static_cast<uint8_t>(chance.below(256)),
                   mutated_bytes({}, 16)};
  });
}
