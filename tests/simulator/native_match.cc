// MATCH, leases and batches of PUTs of what is not there, as a cache uses them: keys of hashes in a bucket of their
// own, some with an end.
#include <fmt/format.h>

#include <algorithm>

#include "base/hex.h"
#include "client/native/streams.h"
#include "simulator/native.h"
#include "simulator/scheduler.h"
#include "simulator/server.h"

namespace verbena::simulator {
namespace {

using client::ManyCall;
using native::wire::Type;

constexpr const char* blocks_bucket = "blocks";
constexpr const char* blocks_prefix = "model/";
constexpr size_t hash_size = 16, block_size_max = 24'000;

std::vector<std::byte> hash_of(size_t at) { return std::vector<std::byte>(hash_size, std::byte(0x10 * (at + 1) | at)); }
std::string block_key(size_t at) { return blocks_prefix + to_hex(hash_of(at)); }

ManyCall call_of(Type type, std::span<const BatchItem> items, std::span<BatchResult> results) {
  ManyCall call;
  call.type = type;
  call.items = items;
  call.results = results;
  return call;
}

bool is_answered(const ManyCall& call, size_t i) { return call.answered.size() > i && call.answered[i] != 0; }

}  // namespace

void World::Native::begin(Loop& loop) {
  if (!blocks_used_) return;
  const Reply made = world_.ask(loop, "PUT", fmt::format("/{}", blocks_bucket));
  if (!made.ok()) world_.fail_with("no bucket: " + made.body);
}

void World::Native::crash() {
  for (Block& block : blocks_) block.release();
}

void World::Native::act_on_blocks(const Attempt& attempt, Loop& loop) {
  const uint64_t choice = draw(12);
  if (choice < 4) return put_blocks(attempt);
  if (choice < 6) return put_block(loop, draw(blocks_count));
  if (choice < 7) return remove_blocks(attempt, loop);
  match(attempt);
}

std::vector<size_t> World::Native::draw_blocks() {
  std::vector<size_t> all;
  const size_t from = draw(blocks_count / 2);
  for (size_t at = from; at < blocks_count && all.size() < 1 + draw(blocks_count); ++at) all.push_back(at);
  return all;
}

// They may be changed yet.
void World::Native::unsure_blocks(const std::vector<size_t>& blocks) {
  if (blocks.empty() || world_.engine_->errors_pend()) return;
  settle();
  for (const size_t at : blocks) blocks_[at].unknown(true);
}

// What is there stays.
void World::Native::put_blocks(const Attempt& attempt) {
  constexpr size_t sizes[] = {8, 300, 5000, block_size_max};
  std::vector<uint32_t> values;
  for (size_t i = 0; i < blocks_count; ++i) values.push_back(world_.values_.add(sizes[draw(4)]));
  std::vector<size_t> blocks = draw_blocks();
  std::erase_if(blocks, [&](size_t at) { return blocks_[at].busy(); });
  if (blocks.empty()) return;
  for (size_t i = 0; i < blocks.size(); ++i) blocks_[blocks[i]].begin({{.content = values[i]}});
  std::string bytes;
  std::vector<std::string> keys;
  std::vector<BatchItem> items;
  std::vector<BatchResult> results(blocks.size());
  for (const size_t at : blocks) keys.push_back(block_key(at));
  for (size_t i = 0; i < blocks.size(); ++i) {
    items.push_back({.bucket = blocks_bucket,
                     .key = keys[i],
                     .offset = bytes.size(),
                     .size = world_.values_.size(values[i]),
                     .if_none_match = "*"});
    bytes += world_.values_.bytes(values[i]);
  }
  const MutableBytes window = std::as_writable_bytes(std::span(bytes));
  ManyCall call = call_of(Type::put_many, items, results);
  call.windows = std::span(&window, 1);
  const auto span_at = calls_.begin();
  const auto done = run(attempt, call, false);
  const LastingCall span = calls_.end(span_at);
  if (done) succeeded(attempt);
  if (!done) note_error(attempt, "PUT_MANY of blocks", done.error());
  std::vector<size_t> open;
  for (size_t i = 0; i < blocks.size(); ++i) {
    Block& block = blocks_[blocks[i]];
    if (is_answered(call, i) && !results[i].error) {
      block.done({.content = values[i]});
    } else if (is_answered(call, i) && *results[i].error == ErrorCode::precondition_failed) {
      block.refused();
      judge_block(blocks[i], block.begin_read(), "there already", [&](const auto& one) { return span.may_find(one); });
    } else {
      open.push_back(blocks[i]);
    }
  }
  unsure_blocks(open);
}

// Over what is there, by the router: a lease keeps the version from before.
void World::Native::put_block(Loop& loop, size_t at) {
  Block& block = blocks_[at];
  const uint32_t content = world_.values_.add(8 + draw(block_size_max - 8));
  if (block.busy()) return;
  const int64_t ttl_s = draw(2) == 0 ? 0 : static_cast<int64_t>(1 + draw(4));
  s3::Headers headers;
  if (ttl_s != 0) headers.emplace_back("x-verbena-ttl", std::to_string(ttl_s));
  const auto span_at = calls_.begin();
  block.begin({span_at->makes(content, ttl_s, world_.latest_ns())});
  const Reply reply = world_.ask(loop, "PUT", fmt::format("/{}/{}", blocks_bucket, block_key(at)), std::move(headers),
                                 world_.values_.bytes(content));
  const LastingCall span = calls_.end(span_at);
  if (reply.ok()) return block.done(span.made(content, ttl_s, world_.latest_ns()));
  world_.note_failure("a block's put", reply.code);
  unsure_blocks({at});
}

void World::Native::remove_blocks(const Attempt& attempt, Loop& loop) {
  std::vector<size_t> blocks = draw_blocks();
  std::erase_if(blocks, [&](size_t at) { return blocks_[at].busy(); });
  if (blocks.empty()) return;
  for (const size_t at : blocks) blocks_[at].begin({Lasting{}});
  std::vector<size_t> open;
  if (draw(3) == 0) {
    for (const size_t at : blocks) {
      const Reply reply = world_.ask(loop, "DELETE", fmt::format("/{}/{}", blocks_bucket, block_key(at)));
      if (reply.ok()) blocks_[at].done({});
      if (reply.ok()) continue;
      world_.note_failure("a block's removal", reply.code);
      open.push_back(at);
    }
    return unsure_blocks(open);
  }
  std::vector<std::string> keys;
  std::vector<BatchItem> items;
  std::vector<BatchResult> results(blocks.size());
  for (const size_t at : blocks) keys.push_back(block_key(at));
  for (const std::string& key : keys) items.push_back({.bucket = blocks_bucket, .key = key});
  ManyCall call = call_of(Type::delete_many, items, results);
  const auto done = run(attempt, call, false);
  if (done) succeeded(attempt);
  if (!done) note_error(attempt, "DELETE_MANY of blocks", done.error());
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (is_answered(call, i) && !results[i].error) {
      blocks_[blocks[i]].done({});
    } else {
      open.push_back(blocks[i]);
    }
  }
  unsure_blocks(open);
}

// --- MATCH -----------------------------------------------------------------------------------------------------------

void World::Native::judge_block(size_t at, Block::Reading reading, std::string_view seen,
                                const std::function<bool(const Lasting&)>& fits) {
  std::string text;
  for (const Lasting& one : reading->may_be) {
    text += fmt::format(" {}, {} s, until {} to {};", one.content, one.ttl_s, one.from_s, one.to_s);
  }
  if (blocks_[at].end_read(reading, fits)) return;
  world_.fail_with(
      fmt::format("native: block {}: {}, now {}: it was:{}", at, seen, world_.latest_ns() / Lasting::second_ns, text));
}

void World::Native::match(const Attempt& attempt) {
  std::vector<std::vector<size_t>> lists;
  for (uint64_t count = 1 + draw(3); count > 0; --count) lists.push_back(draw_blocks());
  std::vector<std::byte> hashes;
  std::vector<uint32_t> counts;
  std::vector<Readings> readings;
  for (const auto& list : lists) {
    counts.push_back(static_cast<uint32_t>(list.size()));
    auto& of_list = readings.emplace_back();
    for (const size_t at : list) {
      const auto hash = hash_of(at);
      hashes.insert(hashes.end(), hash.begin(), hash.end());
      of_list.push_back(blocks_[at].begin_read());
    }
  }
  client::NativeMatch request{.bucket = blocks_bucket,
                              .prefix = blocks_prefix,
                              .hashes = hashes,
                              .width = hash_size,
                              .counts = counts,
                              .sizes = draw(2) == 0,
                              .places = draw(2) == 0};
  if (draw(3) != 0) request.lease = std::chrono::milliseconds(1 + draw(3000));
  Leased leased{.session = attempt.session,
                .dials = attempt.slot.dials,
                .troubles = fabric_.troubles(attempt.slot.host),
                .until_ns = Scheduler::get().steady_ns() + std::chrono::nanoseconds(request.lease).count()};
  client::NativeMatched matched;
  const auto span_at = calls_.begin();
  const auto done = attempt.session->with_streams(true, [&](client::NativeStreams& streams) -> Result<void> {
    VB_ASSIGN(matched, client::match(streams, request));
    return {};
  });
  const LastingCall span = calls_.end(span_at);
  if (done) succeeded(attempt);
  if (!done) note_error(attempt, "MATCH", done.error());
  for (size_t i = 0; i < lists.size(); ++i) {
    if (done && i < matched.lists.size()) {
      judge_list(attempt, lists[i], readings[i], matched.lists[i], span, leased);
      continue;
    }
    if (done) world_.fail_with("native: a list of a MATCH without an answer");
    for (size_t at = 0; at < lists[i].size(); ++at) blocks_[lists[i][at]].end_read(readings[i][at]);
  }
  leased.id = matched.lease;
  if (leased.id != 0 && request.lease.count() == 0) world_.fail_with("native: a lease that was not asked for");
  if (leased.id != 0) read_blocks(attempt, leased);
}

// Each key for itself: a MATCH is no moment of all.
void World::Native::judge_list(const Attempt& attempt, const std::vector<size_t>& blocks, const Readings& readings,
                               const client::NativeMatchedList& list, const LastingCall& call, Leased& leased) {
  std::vector<native::wire::MatchRun> runs = list.runs;
  size_t run = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t at = blocks[i];
    if (i > list.leading || (i == list.leading && list.code != Errc::no_such_key)) {
      blocks_[at].end_read(readings[i]);
      continue;
    }
    if (i == list.leading) {
      const int64_t latest_ns = world_.latest_ns();
      judge_block(at, readings[i], "not matched", [&](const auto& one) { return one.may_be_absent(latest_ns); });
      continue;
    }
    while (run < runs.size() && runs[run].count == 0) ++run;
    const uint64_t size = run < runs.size() ? runs[run].size : 0;
    if (run < runs.size()) --runs[run].count;
    std::set<uint32_t> may_be;
    judge_block(at, readings[i], fmt::format("matched, of {} bytes", size), [&](const Lasting& one) {
      const bool fits = call.may_find(one) && (size == 0 || size == world_.values_.size(one.content));
      if (fits) may_be.insert(one.content);
      return fits;
    });
    const auto [known, is_new] = leased.blocks.emplace(at, may_be);
    if (!is_new) known->second.insert(may_be.begin(), may_be.end());  // the last one that was found is held
  }
  if (list.code != Errc::ok && list.code != Errc::no_such_key) {
    note_error(attempt, "a list of MATCH", {.code = list.code, .sys = 0, .context = "native: a list"});
  }
}

// --- Leases ----------------------------------------------------------------------------------------------------------

// Nothing may have ended it yet.
bool World::Native::holds(const Attempt& attempt, const Leased& leased) const {
  return Scheduler::get().steady_ns() < leased.until_ns && attempt.slot.dials == leased.dials &&
         fabric_.troubles(attempt.slot.host) == leased.troubles && !fabric_.holds_broken(attempt.slot.host) &&
         !world_.engine_->befell();
}

// What was matched, by its lease: the same versions until it ends, whatever became of their keys.
void World::Native::read_blocks(const Attempt& attempt, Leased& leased) {
  for (uint64_t times = 1 + draw(3); times > 0 && !over_; --times) {
    sleep_for(world_.draw_ns(draw(3) == 0 ? 2000 : 100));
    std::vector<size_t> blocks;
    for (const auto& [at, contents] : leased.blocks) {
      if (draw(4) != 0) blocks.push_back(at);
    }
    if (blocks.empty()) continue;
    const auto memory = std::make_shared<Guarded>(blocks.size() * block_size_max);
    std::vector<std::string> keys;
    std::vector<BatchItem> items;
    std::vector<BatchResult> results(blocks.size());
    Readings readings;
    for (const size_t at : blocks) keys.push_back(block_key(at));
    for (size_t i = 0; i < blocks.size(); ++i) {
      items.push_back({.bucket = blocks_bucket, .key = keys[i], .offset = i * block_size_max, .size = block_size_max});
      readings.push_back(blocks_[blocks[i]].begin_read());
    }
    const MutableBytes window = memory->bytes();
    ManyCall call = call_of(Type::get_many, items, results);
    call.windows = std::span(&window, 1);
    call.lease = leased.id;
    const auto span_at = calls_.begin();
    const auto done = run(attempt, call, true);
    const LastingCall span = calls_.end(span_at);
    if (done) succeeded(attempt);
    if (!done) note_error(attempt, "GET_MANY by a lease", done.error());
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (!is_answered(call, i)) {
        blocks_[blocks[i]].end_read(readings[i]);
        continue;
      }
      const Bytes bytes = Bytes(window).subspan(items[i].offset, results[i].error ? 0 : results[i].bytes);
      judge_leased(attempt, leased, blocks[i], readings[i], results[i], bytes, span);
    }
    if (!done) keep_late(memory);
    if (draw(4) != 0) continue;
    leased.until_ns = 0;
    (void)attempt.session->with_streams(false, [&](client::NativeStreams& streams) {
      return client::end_lease(streams, leased.id, std::chrono::seconds(30));
    });
  }
}

void World::Native::judge_leased(const Attempt& attempt, Leased& leased, size_t at, Block::Reading reading,
                                 const BatchResult& result, Bytes bytes, const LastingCall& call) {
  std::set<uint32_t>& held = leased.blocks[at];
  const bool holds = this->holds(attempt, leased);
  if (result.error && *result.error != ErrorCode::no_such_key) return blocks_[at].end_read(reading);
  if (result.error) {
    if (holds) world_.fail_with(fmt::format("native: block {} was leased and is missing", at));
    const int64_t latest_ns = world_.latest_ns();
    return judge_block(at, reading, "missing", [&](const auto& one) { return one.may_be_absent(latest_ns); });
  }
  std::vector<uint32_t> contents;
  const bool whole = world_.values_.split(std::string(as_text(bytes)), contents) && contents.size() == 1;
  const uint32_t content = whole ? contents[0] : 0;
  if (held.contains(content)) {
    held = {content};  // from now on no other
    return blocks_[at].end_read(reading);
  }
  if (holds) world_.fail_with(fmt::format("native: block {}: value {} by a lease of another", at, content));
  judge_block(at, reading, fmt::format("value {}", content),
              [&](const Lasting& one) { return one.content == content && call.may_find(one); });
}

}  // namespace verbena::simulator
