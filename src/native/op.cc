#include "native/op.h"

#include <algorithm>

#include "auth/account_of.h"
#include "native/door_state.h"
#include "native/endpoint.h"
#include "native/match.h"
#include "native/read_batch.h"
#include "native/wire/list_values.h"
#include "native/wire/watch.h"
#include "native/write_batch.h"

namespace verbena::native {

Op::Op() = default;
Op::~Op() = default;

void RecycleOp::operator()(Op* op) const {
  auto endpoint = std::move(op->endpoint);
  if (endpoint == nullptr) {
    delete op;
  } else {
    endpoint->recycle(op);
  }
}

void Op::fail(Errc code) {
  outcome = wire_code(code);
  wire::Writer out(body_space());
  wire::encode_error(out, outcome);
  body_size = out.size();
}

void Op::forget_target() {
  get.clear();
  rename.clear();
  for (std::string* name : {&bucket, &key, &list.prefix}) name->clear();
}

void Op::answers(const store::ObjectInfo& info, bool is_range) {
  partial = is_range;
  if (!is_told()) return;
  object_version.assign(info.version_id);
  object_size = info.size;
}

std::chrono::milliseconds Op::operation_deadline() const {
  const auto limit = endpoint->door().options.operation_deadline;
  if (header.timeout_ms == 0) return limit;
  return std::min(limit, std::chrono::milliseconds(header.timeout_ms));
}

s3::ByteRange byte_range(wire::Range range) {
  s3::ByteRange out;
  if (range.first == wire::open_end) {
    out.suffix = range.last;
  } else {
    out.first = range.first;
    if (range.last != wire::open_end) out.last = range.last;
  }
  return out;
}

namespace {

void assign(std::vector<std::string>& to, const auto& from) {
  to.resize(from.count);
  for (size_t i = 0; i < from.count; ++i) to[i].assign(from[i]);
}

std::optional<int64_t> time_or_none(int64_t s) { return s == wire::no_time ? std::nullopt : std::optional<int64_t>(s); }

void assign(std::optional<std::string>& to, std::string_view from) {
  if (from.empty()) {
    to.reset();
  } else {
    to.emplace(from);
  }
}

}  // namespace

bool load_get(Op& op, Bytes body) {
  const auto get = wire::decode_get(body);
  if (!get) return false;
  op.said.clear();
  op.get.clear();
  op.get.bucket.assign(get->bucket);
  op.get.key.assign(get->key);
  if (get->part_number != 0) op.get.part_number = get->part_number;
  assign(op.get.preconditions.if_match, get->if_match);
  assign(op.get.preconditions.if_none_match, get->if_none_match);
  op.get.preconditions.if_modified_since_s = time_or_none(get->if_modified_since_s);
  op.get.preconditions.if_unmodified_since_s = time_or_none(get->if_unmodified_since_s);
  op.ranges.assign(get->ranges.begin(), get->ranges.end());
  if (op.ranges.size() == 1) op.get.range = byte_range(op.ranges[0]);
  op.window = get->window;
  op.inline_max = get->inline_max;
  const auto backwards = [](const wire::Range& range) {
    return range.first != wire::open_end && range.last < range.first;
  };
  if (std::ranges::any_of(op.ranges, backwards)) return false;
  return op.ranges.size() <= 1 || !op.get.part_number;
}

namespace {

bool take_put(Op& op, const std::optional<wire::Put>& put) {
  if (!put) return false;
  op.said.clear();
  op.put.clear();
  op.put.bucket.assign(put->bucket);
  op.bucket.assign(put->bucket);
  op.put.key.assign(put->key);
  op.key.assign(put->key);
  op.put.md5_etag = op.has(wire::flag_md5_etag);
  op.put.compute = put->compute;
  assign(op.put.content_md5, put->content_md5);
  assign(op.put.conditions.if_match, put->if_match);
  assign(op.put.conditions.if_none_match, put->if_none_match);
  for (const auto& sum : put->expected) {
    op.put.expected.push_back({.algorithm = sum.algorithm, .value = std::string(sum.value)});
  }
  for (const auto& header : put->headers) {
    op.put.headers.emplace_back(header.name, header.value);
  }
  op.window = put->window;
  op.put_size = put->size;
  op.inline_bytes.assign(put->inline_bytes.begin(), put->inline_bytes.end());
  return true;
}

}  // namespace

bool load_put(Op& op, Bytes body) { return take_put(op, wire::decode_put(body, op.has(wire::flag_window))); }

bool load_append(Op& op, Bytes body) {
  const auto append = wire::decode_append(body, op.has(wire::flag_window));
  if (!append || !take_put(op, append->put)) return false;
  op.put.append = s3::PutRequest::Append();
  if (append->offset != wire::open_end) op.put.append->offset = append->offset;
  return true;
}

bool load_rename(Op& op, Bytes body) {
  const auto rename = wire::decode_rename(body);
  if (!rename) return false;
  op.rename.clear();
  op.rename.bucket.assign(rename->bucket);
  op.bucket.assign(rename->bucket);
  op.rename.from.assign(rename->from);
  op.rename.to.assign(rename->to);
  op.key.assign(rename->to);
  op.rename.token.assign(rename->token);
  const auto add = [](std::vector<std::string>& to, std::string_view tag) {
    if (!tag.empty()) to.emplace_back(tag);
  };
  add(op.rename.source.if_match, rename->source_if_match);
  add(op.rename.target.if_match, rename->if_match);
  add(op.rename.target.if_none_match, rename->if_none_match);
  return true;
}

bool load_delete(Op& op, Bytes body) {
  const auto request = wire::decode_delete(body);
  if (!request) return false;
  op.bucket.assign(request->bucket);
  op.key.assign(request->key);
  op.conditions = {};
  assign(op.conditions.if_match, request->if_match);
  return true;
}

bool load_list(Op& op, Bytes body) {
  const auto request = wire::decode_list(body);
  if (!request) return false;
  op.bucket.assign(request->bucket);
  op.list.prefix.assign(request->prefix);
  op.list.delimiter.assign(request->delimiter);
  op.list.after.assign(request->after);
  op.list.max_keys = static_cast<int>(std::min(request->max_keys, wire::list_keys_max));
  return true;
}

bool load_list_values(Op& op, Bytes body) {
  const auto request = wire::decode_list_values(body);
  if (!request) return false;
  op.bucket.assign(request->bucket);
  op.list.prefix.assign(request->prefix);
  op.list.delimiter.clear();
  op.list.after.assign(request->after);
  op.list.max_keys = static_cast<int>(std::min(request->max_keys, wire::list_keys_max));
  op.window = request->window;
  op.value_size_max = request->value_size_max;
  op.details = request->details;
  return true;
}

bool load_watch(Op& op, Bytes body) {
  const auto request = wire::decode_watch(body);
  if (!request) return false;
  op.bucket.assign(request->bucket);
  op.list.prefix.assign(request->prefix);
  return true;
}

bool load_watch_next(Op& op, Bytes body) {
  const auto request = wire::decode_watch_next(body);
  if (!request) return false;
  op.bucket = op.endpoint->watches().bucket_of(*op.stream, request->watch);
  op.list.prefix.clear();
  op.watching = {.watch = request->watch, .seen = request->seen, .wait_ms = request->wait_ms};
  return true;
}

bool load_watch_end(Op& op, Bytes body) {
  const auto request = wire::decode_watch_end(body);
  if (!request) return false;
  op.bucket = op.endpoint->watches().bucket_of(*op.stream, request->watch);
  op.list.prefix.clear();
  op.watching = {.watch = request->watch};
  return true;
}

std::string account_of(const Op& op) { return std::string(auth::account_of(op.caller.identity)); }

}  // namespace verbena::native
