// What the native door's requests leave behind: counters, lines of the access log, records of buckets' logs.
#include <fmt/core.h>

#include "auth/auth.h"
#include "base/clock.h"
#include "call/account.h"
#include "native/endpoint.h"
#include "native/wire/batch.h"
#include "s3/errors.h"
#include "s3/workers/request_log.h"

namespace verbena::native {
namespace {

// As docs/s3.md names what they do.
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
    case wire::Type::list_values:
      return call::Verb::read_batch;
    case wire::Type::put_many:
    case wire::Type::delete_many:
      return call::Verb::write_batch;
    default:
      return call::Verb::other;
  }
}

// A batch's items are this, each.
wire::Type item_type(wire::Type type) {
  switch (type) {
    case wire::Type::head_many:
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
      return {none, none};
    default:
      return {op.bucket, op.list.prefix};
  }
}

call::Details details_of(const Op& op, wire::Type type) {
  return {.who = &op.caller.identity,
          .peer = op.caller.peer_address,
          .action = action_of(type),
          .time_us = op.noted.time_us,
          .duration_us = static_cast<int64_t>(ns_between(op.began, ticks()) / 1000),
          .request_id = op.caller.request_id};
}

std::string_view error_code_of(Errc outcome) {
  return outcome == Errc::ok ? std::string_view() : s3::error_form(outcome).code;
}

// "GET /bucket/key" with what the message says besides, as HTTP would write it, and the protocol that it came by.
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

// Counts an item for the access log. True: the caller has no right to it, and it has its place in the batch's own line.
bool sums_up(Op& op, const Endpoint::Item& item) {
  Op::Noted& noted = op.noted;
  ++noted.items;
  if (item.outcome != Errc::access_denied) return false;
  if (noted.refused++ != 0) return true;
  noted.refused_bucket = item.bucket_name;
  noted.refused_key = item.key;
  return true;
}

// Into the log of its bucket: a request, or an item of one. `entry` is the request's and used for each of its items.
void log(s3::LogEntry& entry, const Op& op, wire::Type type, const call::Answered& answered,
         const call::Details& details, std::optional<uint64_t> object_size) {
  s3::LogRecord& record = entry.record;
  const std::string_view action = action_of(type);  // "PUT object?renameObject"
  const std::string_view method = action.substr(0, action.find(' '));
  const size_t mark = action.find('?');
  const bool lists = type == wire::Type::list || type == wire::Type::list_values || type == wire::Type::watch;
  record.operation =
      s3::log_operation(method, !lists, mark == std::string_view::npos ? std::string_view() : action.substr(mark + 1));
  // As the keys of DeleteObjects are named.
  if (type_of(op) == wire::Type::delete_many && answered.verb == call::Verb::remove) {
    record.operation = "BATCH.DELETE.OBJECT";
  }
  record.key = lists ? std::string_view() : details.key;
  record.request = request_line(op, type, method, record.bucket, record.key);
  record.version_id = details.version;
  s3::finish_log(entry, {answered.status, details.error_code, details.bytes_out, details.duration_us, object_size});
}

}  // namespace

void Endpoint::measure(const Op& op) const {
  op.lane->moved.bytes_in += op.moved.in;
  op.lane->moved.bytes_out += op.moved.out;
  const call::Verb verb = verb_of(type_of(op));
  door_->metrics.times.note(verb, op.moved.in + op.moved.out, ns_between(op.began, ticks()), op.caller.request_id);
  if (!op.is_told()) account(op);  // else it was before its reply went out
}

void Endpoint::begin_note(Op& op) const {
  Op::Noted& noted = op.noted;
  noted.time_us = door_->service.clock.now_us();
  noted.of = op.began;
  noted.trace = {};
  const auto of_caller = std::exchange(noted.of_caller, std::nullopt);
  observe::Tracer* const tracer = door_->options.tracer;
  const bool alone = !wire::is_batch(type_of(op));
  noted.traced = tracer != nullptr && alone ? tracer->begin(of_caller, op.began) : observe::Traced();
  if (alone) op.caller.trace = &noted.trace;
  noted.items = noted.refused = 0;
  noted.source.clear();
  if (type_of(op) == wire::Type::rename) noted.source.assign(op.bucket).append("/").append(op.rename.from);
}

bool Endpoint::buckets_have_logs() const {
  const s3::RequestLog* const log = door_->service.request_log;
  return log != nullptr && log->in_use();
}

// As the router begins them for HTTP: before rates are asked, so that what they refuse is in the log.
Task<void> Endpoint::begin_logs(Op& op, const Requests& requests) {
  s3::Service& service = op.endpoint->door().service;
  if (action_of(type_of(op)).empty()) co_return;  // of the session's own making
  std::vector<std::shared_ptr<s3::LogEntry>> logs;
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
  if (any) op.logs = std::move(logs);
}

void Endpoint::account(const Op& op) const {
  const wire::Type type = type_of(op);
  if (op.is_noted() && op.noted.refused != 0) note_refused_items(op);
  if (wire::is_batch(type) && op.outcome == Errc::ok) return;                        // its items were accounted for
  const Op::Moved moved = type == wire::Type::list_values ? Op::Moved() : op.moved;  // likewise, but for the listing
  const call::Verb verb = verb_of(type);
  const Target target = target_of(op);
  const call::Answered answered{.door = call::Door::native,
                                .transport = info().transport,
                                .verb = verb,
                                .bucket = target.bucket,
                                .status = s3::status_of(verb, op.outcome, op.partial),
                                .in = moved.in,
                                .out = moved.out};
  call::count(answered);
  if (!op.is_told() || action_of(type).empty()) return;
  call::Details details = details_of(op, type);
  details.key = target.key;
  details.version = op.object_version;
  details.source = op.noted.source;
  details.error_code = error_code_of(op.outcome);
  details.bytes_in = moved.in;
  details.bytes_out = moved.out;
  for (const auto& entry : op.logs) {
    if (entry != nullptr) log(*entry, op, type, answered, details, op.object_size);
  }
  if (!op.is_noted()) return;
  details.trace = &op.noted.trace;
  const observe::Line line = call::line_of(answered, details);
  if (op.noted.traced.wanted) door_->options.tracer->end(op.noted.traced, line, op.noted.trace);
  door_->tell(line);
}

// One line for all items of a batch that its caller has no right to.
void Endpoint::note_refused_items(const Op& op) const {
  const wire::Type type = item_type(type_of(op));
  const call::Verb verb = verb_of(type);
  const call::Answered answered{.door = call::Door::native,
                                .transport = info().transport,
                                .verb = verb,
                                .bucket = op.noted.refused_bucket,
                                .status = s3::status_of(verb, Errc::access_denied, false)};
  call::Details details = details_of(op, type);
  details.key = op.noted.refused_key;
  details.error_code = error_code_of(Errc::access_denied);
  observe::Line line = call::line_of(answered, details);
  line.items = op.noted.refused;
  line.of_items = op.noted.items;
  door_->tell(line);
}

void Endpoint::account(Op& op, const Item& item) const {
  const wire::Type type = item_type(type_of(op));
  const call::Verb verb = verb_of(type);
  const call::Answered answered{.door = call::Door::native,
                                .transport = info().transport,
                                .verb = verb,
                                .bucket = item.bucket_name,
                                .status = s3::status_of(verb, item.outcome, item.partial),
                                .in = item.in,
                                .out = item.out,
                                .requests = item.requests};
  call::count(answered);
  if (!op.is_told()) return;
  call::Details details = details_of(op, type);
  details.key = item.key;
  details.version = item.version;
  details.error_code = error_code_of(item.outcome);
  details.bytes_in = item.in;
  details.bytes_out = item.out;
  if (!op.logs.empty() && op.logs[item.bucket] != nullptr) {
    log(*op.logs[item.bucket], op, type, answered, details, item.object_size);
  }
  if (op.is_noted() && !sums_up(op, item)) door_->tell(call::line_of(answered, details));
}

void Endpoint::note_refusal(const Lane& lane, const wire::Header& header, Errc code) const {
  const auto type = static_cast<wire::Type>(header.type);
  const call::Verb verb = verb_of(type);
  const call::Answered answered{.door = call::Door::native,
                                .transport = info().transport,
                                .verb = verb,
                                .status = s3::status_of(verb, code, false)};
  door_->tell(call::line_of(answered, {.who = &lane.caller.identity,
                                       .peer = lane.caller.peer_address,
                                       .action = action_of(type),
                                       .error_code = error_code_of(code),
                                       .time_us = door_->service.clock.now_us()}));
}

}  // namespace verbena::native
