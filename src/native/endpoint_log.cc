// What the access log and the metrics say of the native door's requests.
#include "base/clock.h"
#include "native/endpoint.h"
#include "native/wire/batch.h"
#include "s3/bucket_traffic.h"
#include "s3/errors.h"

namespace verbena::native {
namespace {

// As docs/s3.md names what they do.
std::string_view action_of(const wire::Header& header) {
  switch (static_cast<wire::Type>(header.type)) {
    case wire::Type::get:
      return "GET object";
    case wire::Type::head:
      return "HEAD object";
    case wire::Type::put:
    case wire::Type::append:
      return "PUT object";
    case wire::Type::rename:
      return "PUT object?renameObject";
    case wire::Type::del:
      return "DELETE object";
    case wire::Type::list:
    case wire::Type::list_values:  // and each value has a line of its own
      return "GET bucket?list-type";
    case wire::Type::watch:
      return "GET bucket?watch";
    // Of a batch every item has a line of its own.
    case wire::Type::get_many:
      return "GET object";
    case wire::Type::head_many:
      return "HEAD object";
    case wire::Type::put_many:
      return "PUT object";
    case wire::Type::delete_many:
      return "DELETE object";
    default:
      return "";
  }
}

void tell_caller(http::AccessLine& line, const s3::Caller& caller) {
  line.door = "native";
  line.peer = caller.peer_address;
  line.access_key = caller.identity.access_key;
  if (caller.identity.principal != nullptr) line.principal = caller.identity.principal->arn;
}

void tell_outcome(http::AccessLine& line, Errc code) {
  line.status = 200;
  if (code == Errc::ok) return;
  const s3::ErrorForm form = s3::error_form(code);
  line.status = form.status;
  line.error_code = form.code;
}

s3::Verb verb_of(wire::Type type) {
  switch (type) {
    case wire::Type::get:
      return s3::Verb::get;
    case wire::Type::head:
      return s3::Verb::head;
    case wire::Type::put:
      return s3::Verb::put;
    case wire::Type::append:
      return s3::Verb::append;
    case wire::Type::del:
      return s3::Verb::remove;
    case wire::Type::list:
      return s3::Verb::list;
    case wire::Type::get_many:
    case wire::Type::head_many:
    case wire::Type::list_values:
      return s3::Verb::read_batch;
    case wire::Type::put_many:
    case wire::Type::delete_many:
      return s3::Verb::write_batch;
    default:
      return s3::Verb::other;
  }
}

// Counts the item. True: it is refused, and has its place in the batch's own line.
bool sums_up(Op& op, std::string_view bucket, std::string_view key, Errc code) {
  Op::Noted& noted = op.noted;
  ++noted.items;
  if (code != Errc::access_denied) return false;
  if (noted.refused++ != 0) return true;
  noted.bucket = bucket;
  noted.key = key;
  return true;
}

}  // namespace

void Endpoint::measure(const Op& op) const {
  const auto type = static_cast<wire::Type>(op.header.type);
  const s3::Verb verb = verb_of(type);
  const uint64_t bytes_in = op.noted.bytes_in, bytes_out = op.noted.bytes_out;
  op.lane->moved.bytes_in += bytes_in;
  op.lane->moved.bytes_out += bytes_out;
  door_->metrics.times.note(verb, bytes_in + bytes_out, ns_between(op.began, ticks()), op.caller.request_id);
  // Of a batch each item counts for its bucket.
  if (op.outcome != Errc::ok || wire::is_batch(type)) return;
  if (verb == s3::Verb::get) return s3::count_traffic(op.get.bucket, s3::Traffic::get, 0, bytes_out);
  const bool adds = verb == s3::Verb::put || verb == s3::Verb::append;
  const std::string& bucket = verb == s3::Verb::head ? op.get.bucket : op.bucket;
  s3::count_traffic(bucket, adds ? s3::Traffic::put : s3::Traffic::other, bytes_in, 0);
}

// The arguments of a PUT go on to those who store it.
void Endpoint::begin_note(Op& op) const {
  Op::Noted& noted = op.noted;
  noted.time_us = door_->service.clock.now_us();
  noted.began = SteadyClock::now();
  noted.of = op.began;
  noted.way = {};
  const auto of_caller = std::exchange(noted.of_caller, std::nullopt);
  observe::Tracer* const tracer = door_->options.tracer;
  const bool alone = !wire::is_batch(static_cast<wire::Type>(op.header.type));
  noted.traced = tracer != nullptr && alone ? tracer->begin(of_caller, op.began) : observe::Traced();
  noted.rdma_bytes = 0;
  noted.items = noted.refused = 0;
  noted.version.clear();
  noted.source.clear();
  switch (static_cast<wire::Type>(op.header.type)) {
    case wire::Type::get:
    case wire::Type::head:
      noted.bucket = op.get.bucket;
      noted.key = op.get.key;
      noted.version = op.get.version_id;
      break;
    case wire::Type::rename:
      noted.bucket = op.rename.bucket;
      noted.key = op.rename.to;
      noted.source.assign(op.rename.bucket).append("/").append(op.rename.from);
      break;
    case wire::Type::put:
    case wire::Type::append:
      noted.bucket = op.put.bucket;
      noted.key = op.put.key;
      break;
    case wire::Type::get_many:
    case wire::Type::head_many:
    case wire::Type::put_many:
    case wire::Type::delete_many:
      noted.bucket.clear();
      noted.key.clear();
      break;
    default:
      noted.bucket = op.bucket;
      noted.key = static_cast<wire::Type>(op.header.type) == wire::Type::del ? op.key : op.list.prefix;
  }
}

void Endpoint::note(const Op& op) const {
  http::AccessLine line;
  if (action_of(op.header).empty()) return;  // of the session's own making
  // Of a batch, the items have been noted, but for those that were refused; without any, this is a refusal.
  const bool batch = wire::is_batch(static_cast<wire::Type>(op.header.type));
  const bool sum = batch && op.noted.refused != 0;
  if (batch && !sum && op.outcome == Errc::ok) return;
  tell_caller(line, op.caller);
  tell_outcome(line, sum ? Errc::access_denied : op.outcome);
  if (sum) {
    line.items = op.noted.refused;
    line.of_items = op.noted.items;
  }
  line.time_us = op.noted.time_us;
  line.action = action_of(op.header);
  line.bucket = op.noted.bucket;
  line.key = op.noted.key;
  line.version = op.noted.version;
  line.source = op.noted.source;
  if (!sum) {  // what others of the batch have moved stands in their lines
    line.bytes_in = op.noted.bytes_in;
    line.bytes_out = op.noted.bytes_out;
    line.rdma_bytes = op.noted.rdma_bytes;
  }
  const auto taken = std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - op.noted.began);
  line.duration_us = taken.count();
  observe::tell_way(line, op.noted.way);
  line.request_id = op.caller.request_id;
  if (op.noted.traced.wanted) door_->options.tracer->end(op.noted.traced, line, op.noted.way);
  door_->tell(line);
}

void Endpoint::note_refusal(const Lane& lane, const wire::Header& header, Errc code) const {
  http::AccessLine line;
  tell_caller(line, lane.caller);
  tell_outcome(line, code);
  line.time_us = door_->service.clock.now_us();
  line.action = action_of(header);
  door_->tell(line);
}

void Endpoint::note_item(Op& op, const s3::GetRequest& request, Errc code, uint64_t bytes, uint64_t rdma_bytes) const {
  if (sums_up(op, request.bucket, request.key, code)) return;
  http::AccessLine line;
  line.bytes_out = bytes;
  line.rdma_bytes = rdma_bytes;
  note_line(op, line, request.bucket, request.key, request.version_id, code);
}

void Endpoint::note_write(Op& op, std::string_view bucket, std::string_view key, std::string_view version, Errc code,
                          uint64_t bytes, uint64_t rdma_bytes) const {
  if (sums_up(op, bucket, key, code)) return;
  http::AccessLine line;
  line.bytes_in = bytes;
  line.rdma_bytes = rdma_bytes;
  note_line(op, line, bucket, key, version, code);
}

void Endpoint::note_line(const Op& op, http::AccessLine& line, std::string_view bucket, std::string_view key,
                         std::string_view version, Errc code) const {
  tell_caller(line, op.caller);
  tell_outcome(line, code);
  line.time_us = op.noted.time_us;
  const bool listed = static_cast<wire::Type>(op.header.type) == wire::Type::list_values;
  line.action = listed ? "GET object" : action_of(op.header);
  line.bucket = bucket;
  line.key = key;
  line.version = version;
  const auto taken = std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - op.noted.began);
  line.duration_us = taken.count();
  line.request_id = op.caller.request_id;
  door_->tell(line);
}

}  // namespace verbena::native
