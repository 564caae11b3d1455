#include "client/native/match.h"

#include <algorithm>
#include <string>

#include "client/native/request.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;

// Where a request goes on: in this list, behind so many of its keys.
struct MatchPosition {
  size_t list = 0;
  uint32_t key = 0;
  size_t hash = 0;  // of all
};

struct MatchCall : NativeCall {
  MatchCall(const NativeMatch& r, NativeMatched& m, MatchPosition from) : request(r), matched(m), position(from) {}
  Result<void> prepare(NativeStream::Body& body, size_t inline_max);
  Result<void> answered(Bytes body) override;

  const NativeMatch& request;
  NativeMatched& matched;
  MatchPosition position;
  size_t lists = 0;  // asked for
};

uint8_t details_of(const NativeMatch& request) {
  return static_cast<uint8_t>((request.sizes ? wire::match_sizes : 0) | (request.places ? wire::match_places : 0));
}

Result<void> MatchCall::prepare(NativeStream::Body& body, size_t inline_max) {
  wire::Match message;
  message.details = details_of(request);
  message.width = static_cast<uint8_t>(request.width);
  message.lease_ms = static_cast<uint32_t>(std::min<int64_t>(request.lease.count(), UINT32_MAX));
  message.lease = matched.lease;
  message.bucket = request.bucket;
  message.prefix = request.prefix;
  size_t keys = 0;
  for (size_t i = position.list; i < request.counts.size(); ++i, ++lists) {
    const uint32_t count = request.counts[i] - (i == position.list ? position.key : 0);
    if (!message.counts.add(count)) break;
    keys += count;
  }
  const Bytes hashes = request.hashes.subspan(position.hash * request.width, keys * request.width);
  if (hashes.size() <= inline_max) {
    message.keys = hashes;
  } else {
    // The server only reads this memory.
    const MutableBytes memory(const_cast<std::byte*>(hashes.data()), hashes.size());
    VB_ASSIGN(message.window, lend(body, *this, memory, fabric::Access::server_reads));
    body.flags = 0;  // its window has no flag
  }
  encode(body.out, message);
  return {};
}

Result<void> MatchCall::answered(Bytes body) {
  const Error bad{.code = Errc::malformed, .sys = 0, .context = "native: answer to a match"};
  auto reader = wire::MatchReader::open(body);
  if (!reader || reader->details() != details_of(request) || reader->left() == 0 || reader->left() > lists) {
    return std::unexpected(bad);
  }
  if (matched.lease != 0 && reader->lease() != matched.lease) {
    return fail(Errc::timed_out, "native: the lease ended before the match did");
  }
  matched.lease = reader->lease();
  for (wire::MatchedList list; reader->left() != 0;) {
    const uint32_t asked = request.counts[position.list] - position.key;
    if (!reader->next(list) || list.leading > asked) return std::unexpected(bad);
    const bool whole = list.leading == asked && !list.more;
    if (whole != (list.code == Errc::ok && !list.more)) return std::unexpected(bad);
    if (matched.lists.size() == position.list) matched.lists.emplace_back();
    NativeMatchedList& into = matched.lists.back();
    into.leading += list.leading;
    into.code = list.code;
    for (wire::MatchRun run; list.runs != 0; --list.runs) {
      if (!reader->next_run(run)) return std::unexpected(bad);
      into.runs.push_back(run);
    }
    if (list.more) {
      position.key += list.leading;
      position.hash += list.leading;
    } else {
      position = {position.list + 1, 0, position.hash + asked};
    }
  }
  if (!reader->complete()) return std::unexpected(bad);
  return {};
}

// What a message has room for behind its other fields, and what costs less there than a window: on one host the MAC
// over the bytes costs more than a copy through shared memory.
size_t inline_room(const NativeStream& stream, const NativeMatch& request) {
  if (stream.provider() == "local") return stream.endpoint().inline_max_bytes;
  constexpr size_t fields = 64, trace = 25;
  const size_t counts = sizeof(uint32_t) * std::min(request.counts.size(), wire::match_lists_max);
  const size_t taken = wire::frame_size + fields + trace + request.bucket.size() + request.prefix.size() + counts;
  return stream.message_size_max() - std::min(taken, stream.message_size_max());
}

}  // namespace

Result<NativeMatched> match(NativeStreams& streams, const NativeMatch& request) {
  if (streams.version() < wire::version_of_match) return fail(Errc::unsupported, "native: the server knows no match");
  if (request.bucket.empty() || request.bucket.size() > wire::bucket_size_max) {
    return fail(Errc::invalid_bucket_name, "native: bucket");
  }
  if (request.prefix.size() + 2 * request.width > wire::key_size_max) return fail(Errc::key_too_long, "native: prefix");
  NativeMatched matched;
  MatchPosition position;
  const Deadline deadline = deadline_in(request.timeout);
  // The first key's core, so that the clients of one server do not all ask one core.
  const std::string first = std::string(request.prefix) + to_hex(request.hashes.first(request.width));
  NativeStream& stream =
      request.join != 0 ? streams.of_core(ClientLease::core(request.join)) : streams.stream_of(request.bucket, first);
  matched.lease = ClientLease::id(request.join);
  while (position.list < request.counts.size()) {
    MatchCall call(request, matched, position);
    call.type = wire::Type::match;
    call.deadline = deadline;
    const size_t room = inline_room(stream, request);
    call.outcome = stream.run(call, [&](NativeStream::Body& body) { return call.prepare(body, room); });
    if (call.staging != nullptr) stream.release(std::move(call.staging), call.outcome.has_value());
    if (!call.outcome) return std::unexpected(call.outcome.error());
    // The server's time was over before the first key.
    if (call.position.hash == position.hash) return fail(Errc::timed_out, "native: match");
    position = call.position;
  }
  if (matched.lease != 0) matched.lease = ClientLease::make(stream.endpoint().core, matched.lease);
  return matched;
}

Result<void> end_lease(NativeStreams& streams, uint64_t lease, std::chrono::milliseconds timeout) {
  if (streams.version() < wire::version_of_match) return {};
  CodeCall call;
  call.type = wire::Type::lease_end;
  call.deadline = deadline_in(timeout);
  const auto prepare = [&](NativeStream::Body& body) -> Result<void> {
    encode(body.out, wire::LeaseEnd{ClientLease::id(lease)});
    return {};
  };
  return streams.of_core(ClientLease::core(lease)).run(call, prepare);
}

}  // namespace verbena::client
