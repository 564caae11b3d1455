#include "native/wire/match.h"

#include "native/wire/descriptor.h"

namespace verbena::native::wire {
namespace {

bool is_width(uint8_t width) { return width == 0 || width == 16 || width == 32; }

// Whole keys in the message: exactly these, each short enough.
bool holds_keys(const Match& request, size_t total) {
  Reader in(request.keys);
  for (size_t i = 0; i < total; ++i) {
    const std::string_view key = get_text16(in, key_size_max - request.prefix.size());
    if (!in.ok() || request.prefix.size() + key.size() == 0) return false;
  }
  return in.complete();
}

bool is_sound(const Match& request) {
  if ((request.details & ~match_details_all) != 0 || !is_width(request.width)) return false;
  if (request.counts.count == 0 || request.prefix.size() + 2 * request.width > key_size_max) return false;
  size_t total = 0;
  for (const uint32_t count : request.counts) {
    if (count == 0 || count > match_keys_max - total) return false;
    total += count;
  }
  if (request.width == 0) return request.window.size == 0 && holds_keys(request, total);
  if (request.window.size == 0) return request.keys.size() == total * request.width;
  return request.keys.empty() && request.window.size >= total * request.width;
}

enum ListFlags : uint8_t { list_more = 1 };

}  // namespace

bool encode(Writer& out, const Match& request) {
  put_descriptor(out, request.window);
  out.u8(request.details);
  out.u8(request.width);
  out.u32(request.lease_ms);
  out.u64(request.lease);
  put_text16(out, request.bucket);
  put_text16(out, request.prefix);
  out.u16(request.counts.count);
  for (const uint32_t count : request.counts) out.u32(count);
  out.bytes(request.keys);
  return out.ok();
}

std::optional<Match> decode_match(Bytes body) {
  Reader in(body);
  Match request;
  request.window = get_descriptor(in);
  request.details = in.u8();
  request.width = in.u8();
  request.lease_ms = in.u32();
  request.lease = in.u64();
  request.bucket = get_text16(in, bucket_size_max);
  request.prefix = get_text16(in, key_size_max);
  const uint16_t lists = in.u16();
  if (lists > match_lists_max) return std::nullopt;
  for (uint16_t i = 0; i < lists && in.ok(); ++i) request.counts.add(in.u32());
  request.keys = in.bytes(in.left());
  if (!in.complete() || !is_sound(request)) return std::nullopt;
  return request;
}

bool encode(Writer& out, const LeaseEnd& request) {
  out.u64(request.lease);
  return out.ok();
}

std::optional<LeaseEnd> decode_lease_end(Bytes body) {
  Reader in(body);
  const LeaseEnd request{.lease = in.u64()};
  if (!in.complete()) return std::nullopt;
  return request;
}

bool MatchWriter::begin_list() {
  if (out_.left() < list_size + run_size) return false;
  list_head_ = out_.reserve(list_size);
  list_ = {};
  run_ = {};
  ++lists_;
  return true;
}

bool MatchWriter::add(KeyPlace place, uint64_t size, uint32_t count) {
  if (details_ == 0) {
    list_.leading += count;
    return true;
  }
  const MatchRun now{.count = count,
                     .place = (details_ & match_places) != 0 ? place : KeyPlace::unknown,
                     .size = (details_ & match_sizes) != 0 ? size : 0};
  if (run_.count != 0 && run_.place == now.place && run_.size == now.size) {
    run_.count += count;
  } else {
    // Room for the run that ends, if any, and for this one.
    if (out_.left() < (run_.count != 0 ? 2 : 1) * run_size) return false;
    end_run();
    run_ = now;
  }
  list_.leading += count;
  return true;
}

void MatchWriter::end_run() {
  if (run_.count == 0) return;
  out_.u32(run_.count);
  out_.u8(static_cast<uint8_t>(run_.place));
  out_.u64(run_.size);
  ++list_.runs;
  run_ = {};
}

void MatchWriter::end_list(Errc code, bool more) {
  end_run();
  Writer head(list_head_);
  head.u8(more ? list_more : 0);
  head.u16(static_cast<uint16_t>(code));
  head.u32(list_.leading);
  head.u16(list_.runs);
}

size_t MatchWriter::finish(uint64_t lease) {
  const size_t size = out_.size();
  out_.rewind(0);
  out_.u16(static_cast<uint16_t>(Errc::ok));
  out_.u8(details_);
  out_.u64(lease);
  out_.u16(lists_);
  return size;
}

std::optional<MatchReader> MatchReader::open(Bytes body) {
  MatchReader reader(body);
  if (reader.in_.u16() != static_cast<uint16_t>(Errc::ok)) return std::nullopt;
  reader.details_ = reader.in_.u8();
  reader.lease_ = reader.in_.u64();
  reader.left_ = reader.in_.u16();
  if (!reader.in_.ok() || (reader.details_ & ~match_details_all) != 0) return std::nullopt;
  return reader;
}

bool MatchReader::next(MatchedList& list) {
  if (left_ == 0 || runs_left_ != 0) return false;
  const uint8_t flags = in_.u8();
  list.more = (flags & list_more) != 0;
  list.code = static_cast<Errc>(in_.u16());
  list.leading = in_.u32();
  list.runs = in_.u16();
  if (!in_.ok() || (flags & ~list_more) != 0 || list.leading > match_keys_max) return false;
  if (list.more && (list.code != Errc::ok || left_ != 1)) return false;
  if ((details_ == 0 || list.leading == 0) && list.runs != 0) return false;
  if (details_ != 0 && list.leading != 0 && list.runs == 0) return false;
  runs_left_ = list.runs;
  keys_left_ = list.leading;
  --left_;
  return true;
}

bool MatchReader::next_run(MatchRun& run) {
  if (runs_left_ == 0) return false;
  run.count = in_.u32();
  const uint8_t place = in_.u8();
  run.size = in_.u64();
  if (!in_.ok() || place >= key_places || run.count == 0 || run.count > keys_left_) return false;
  run.place = static_cast<KeyPlace>(place);
  keys_left_ -= run.count;
  --runs_left_;
  return runs_left_ != 0 || keys_left_ == 0;
}

}  // namespace verbena::native::wire
