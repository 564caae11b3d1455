// Accounting of native requests: counters, lines of the access log, records of buckets' logs.
#include <fmt/core.h>

#include "auth/auth.h"
#include "base/clock.h"
#include "call/account.h"
#include "call/request_id.h"
#include "native/endpoint.h"
#include "native/wire/batch.h"
#include "s3/errors.h"
#include "s3/workers/request_log.h"

namespace verbena::native {
namespace {

// Operations by the names of docs/s3.md.
std::string_view action_of(wire::Type type) {
  switch (type) {
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
    case wire::Type::list_values:  // each value has a line of its own, too
      return "GET bucket?list-type";
    case wire::Type::watch:
      return "GET bucket?watch";
    // A batch has a line for each item.
    case wire::Type::get_many:
      return "GET object";
    case wire::Type::head_many:
    case wire::Type::match:
      return "HEAD object";
    case wire::Type::put_many:
      return "PUT object";
    case wire::Type::delete_many:
      return "DELETE object";
    default:
      return "";
  }
}
wire::Type type_of(const Op& op) { return static_cast<wire::Type>(op.header.type); }

call::Verb verb_of(wire::Type type) {
  switch (type) {
    case wire::Type::get:
      return call::Verb::get;
    case wire::Type::head:
      return call::Verb::head;
    case wire::Type::put:
      return call::Verb::put;
    case wire::Type::append:
      return call::Verb::append;
    case wire::Type::del:
      return call::Verb::remove;
    case wire::Type::list:
      return call::Verb::list;
    case wire::Type::get_many:
    case wire::Type::head_many:
    case wire::Type::match:
    case wire::Type::list_values:
      return call::Verb::read_batch;
    case wire::Type::put_many:
    case wire::Type::delete_many:
      return call::Verb::write_batch;
    default:
      return call::Verb::other;
  }
}

// Whether its items are accounted for, and it itself only if it is refused as a whole.
bool has_items(wire::Type type) { return wire::is_batch(type) || type == wire::Type::match; }

// The operation of each item of a batch.
wire::Type item_type(wire::Type type) {
  switch (type) {
    case wire::Type::head_many:
    case wire::Type::match:
      return wire::Type::head;
    case wire::Type::put_many:
      return wire::Type::put;
    case wire::Type::delete_many:
      return wire::Type::del;
    default:
      return wire::Type::get;
  }
}

struct Target {
  const std::string& bucket;
  const std::string& key;
};
Target target_of(const Op& op) {
  static const std::string none;
  switch (type_of(op)) {
    case wire::Type::get:
    case wire::Type::head:
      return {op.get.bucket, op.get.key};
    case wire::Type::put:
    case wire::Type::append:
    case wire::Type::rename:
    case wire::Type::del:
      return {op.bucket, op.key};
    case wire::Type::get_many:
    case wire::Type::head_many:
    case wire::Type::put_many:
    case wire::Type::delete_many:
    case wire::Type::match:
      return {op.bucket, none};  // refused as a whole
    default:
      return {op.bucket, op.list.prefix};
  }
}

int64_t duration_us(const Op& op) { return static_cast<int64_t>(ns_between(op.began, ticks()) / 1000); }

// As S3 has it, which has no code for memory of the client that is too small: a mistake of the client, not of the
// server.
Errc s3_outcome(Errc outcome) { return outcome == Errc::too_large ? Errc::invalid_argument : outcome; }

std::string_view error_code_of(Errc outcome) {
  return outcome == Errc::ok ? std::string_view() : s3::error_form(s3_outcome(outcome)).code;
}

int status_of(call::Verb verb, Errc outcome, bool partial) { return s3::status_of(verb, s3_outcome(outcome), partial); }

// The request line as HTTP would have it ("GET /bucket/key", with the message's other fields), and the protocol.
std::string request_line(const Op& op, wire::Type type, std::string_view method, std::string_view bucket,
                         std::string_view key) {
  std::string path = "/" + auth::uri_encode(bucket, true);
  if (!key.empty()) path += "/" + auth::uri_encode(key, true);
  std::string_view query;
  if (type == wire::Type::list || type == wire::Type::list_values) query = "?list-type=2";
  if (type == wire::Type::watch) query = "?watch";
  if (type == wire::Type::rename) query = "?renameObject";
  return fmt::format("{} {}{} VERBENA/{}", method, path, query, op.version());
}

// Fills the record in the bucket's log, for a request or an item of it. The request's record is used for each of its
// items.
void describe(call::BucketRecord& entry, const Op& op, wire::Type type, call::Verb verb, std::string_view key,
              std::string_view version) {
  s3::LogRecord& record = static_cast<s3::LogEntry&>(entry).record;
  const std::string_view action = action_of(type);  // "PUT object?renameObject"
  const std::string_view method = action.substr(0, action.find(' '));
  const size_t mark = action.find('?');
  const bool lists = type == wire::Type::list || type == wire::Type::list_values || type == wire::Type::watch;
  record.operation =
      s3::log_operation(method, !lists, mark == std::string_view::npos ? std::string_view() : action.substr(mark + 1));
  // Named like the keys of DeleteObjects.
  if (type_of(op) == wire::Type::delete_many && verb == call::Verb::remove) record.operation = "BATCH.DELETE.OBJECT";
  record.key = lists ? std::string_view() : key;
  record.request = request_line(op, type, method, record.bucket, record.key);
  record.version_id = version;
}

}  // namespace

void Endpoint::measure(Op& op) const {
  op.stream->moved.bytes_in += op.moved.in;
  op.stream->moved.bytes_out += op.moved.out;
  const call::Verb verb = verb_of(type_of(op));
  door_->metrics.times.note(verb, op.moved.in + op.moved.out, ns_between(op.began, ticks()), op.caller.request_id);
  if (!op.is_told()) account(op);  // else it was accounted before its reply was sent
}

void Endpoint::begin_note(Op& op) const {
  Op::Noted& noted = op.noted;
  op.caller.observed = &noted;
  noted.by = &door_->observers;
  noted.time_us = door_->service.clock.now_us();
  noted.trace = {};
  const auto of_caller = std::exchange(noted.of_caller, std::nullopt);
  observe::Tracer* const tracer = door_->observers.tracer;
  const bool alone = !has_items(type_of(op));
  noted.traced = tracer != nullptr && alone ? tracer->begin(of_caller, op.began) : observe::Traced();
  if (alone) op.caller.trace = &noted.trace;
  noted.refused.items = noted.refused.refused = 0;
  noted.source.clear();
  if (!op.rename.from.empty() && type_of(op) == wire::Type::rename)
    noted.source.assign(op.bucket).append("/").append(op.rename.from);
}

bool Endpoint::buckets_have_logs() const {
  const s3::RequestLog* const log = door_->service.request_log;
  return log != nullptr && log->in_use();
}

// As in the HTTP router: before rates are checked, so that requests refused by them are in the log.
Task<void> Endpoint::begin_logs(Op& op, const Requests& requests) {
  s3::Service& service = op.endpoint->door().service;
  if (action_of(type_of(op)).empty()) co_return;  // messages about the session itself
  std::vector<std::shared_ptr<call::BucketRecord>> logs;
  bool any = false;
  for (const auto& [bucket, count] : requests) {
    std::shared_ptr<s3::LogEntry> entry;
    if (count != 0) entry = co_await service.request_log->begin(bucket);
    if (entry) {
      s3::LogRecord& record = entry->record;
      record.time_s = service.clock.now_s();
      record.peer = op.caller.peer_address;
      record.request_id = op.caller.request_id;
      record.signature = "SigV4";  // of the request that opened the session
      record.auth_type = "AuthHeader";
      if (op.caller.user_agent != nullptr) record.user_agent = *op.caller.user_agent;
      s3::name_requester(op.caller, record);
    }
    any = any || entry != nullptr;
    logs.push_back(std::move(entry));
  }
  if (any) op.caller.records = std::move(logs);
}

void Endpoint::account(Op& op) const {
  const wire::Type type = type_of(op);
  const bool batch = has_items(type);
  const bool lists_values = type == wire::Type::list_values;
  if ((batch || lists_values) && op.is_told()) call::account_refused(op.caller, duration_us(op));
  if (batch && op.outcome == Errc::ok) return;                    // its items were accounted for
  const Op::Moved moved = lists_values ? Op::Moved() : op.moved;  // likewise, except for the listing
  const call::Verb verb = verb_of(type);
  const Target target = target_of(op);
  const call::Answered answered{.door = call::Door::native,
                                .transport = info().transport,
                                .verb = verb,
                                .bucket = target.bucket,
                                .status = status_of(verb, op.outcome, op.partial),
                                .in = moved.in,
                                .out = moved.out};
  if (action_of(type).empty()) return call::count(answered);
  call::account(op.caller, answered, [&]() -> call::Details {
    for (const auto& record : op.caller.records) {
      if (record != nullptr) describe(*record, op, type, verb, target.key, op.object_version);
    }
    return {.action = action_of(type),
            .key = target.key,
            .version = op.object_version,
            .source = op.caller.observed != nullptr ? std::string_view(op.noted.source) : std::string_view(),
            .error_code = error_code_of(op.outcome),
            .bytes_in = moved.in,
            .bytes_out = moved.out,
            .duration_us = duration_us(op),
            .object_size = op.object_size};
  });
}

void Endpoint::account(Op& op, const Item& item) const {
  const wire::Type type = item_type(type_of(op));
  const call::Verb verb = verb_of(type);
  const call::Answered answered{.door = call::Door::native,
                                .transport = info().transport,
                                .verb = verb,
                                .bucket = item.bucket_name,
                                .status = status_of(verb, item.outcome, item.partial),
                                .in = item.in,
                                .out = item.out,
                                .requests = item.requests};
  call::account_item(op.caller, answered, [&]() -> call::Details {
    const auto& records = op.caller.records;
    call::BucketRecord* const record = records.empty() ? nullptr : records[item.bucket].get();
    if (record != nullptr) describe(*record, op, type, verb, item.key, item.version);
    return {.action = action_of(type),
            .key = item.key,
            .version = item.version,
            .error_code = error_code_of(item.outcome),
            .bytes_in = item.in,
            .bytes_out = item.out,
            .duration_us = duration_us(op),
            .object_size = item.object_size,
            .record = record};
  });
}

// For a request that was refused before it was parsed.
void Endpoint::note_refusal(const SessionStream& stream, const wire::Header& header, Errc code) const {
  const auto type = static_cast<wire::Type>(header.type);
  if (action_of(type).empty()) return;  // about the session itself
  const call::Verb verb = verb_of(type);
  call::Observed observed{.by = &door_->observers, .time_us = door_->service.clock.now_us()};
  call::Call refused{stream.caller};
  refused.request_id = call::make_request_id();
  refused.observed = &observed;
  const call::Answered answered{
      .door = call::Door::native, .transport = info().transport, .verb = verb, .status = status_of(verb, code, false)};
  call::tell(refused, answered, {.action = action_of(type), .error_code = error_code_of(code)});
}

}  // namespace verbena::native
