#include "call/account.h"

#include "s3/bucket_traffic.h"
#include "s3/door_metrics.h"
#include "s3/errors.h"
#include "s3/workers/request_log.h"

namespace verbena::call {
namespace {

constexpr std::array<std::string_view, 3> door_names{"http", "token", "native"};

s3::Traffic traffic_of(s3::Verb verb) {
  switch (verb) {
    case s3::Verb::get:
      return s3::Traffic::get;
    case s3::Verb::put:
    case s3::Verb::append:
      return s3::Traffic::put;
    default:
      return s3::Traffic::other;
  }
}

}  // namespace

void count(const Answered& answered) {
  if (answered.in != 0) s3::count_bytes(answered.door, answered.transport, s3::Direction::in, answered.in);
  if (answered.out != 0) s3::count_bytes(answered.door, answered.transport, s3::Direction::out, answered.out);
  if (answered.status >= 400 || answered.bucket.empty()) return;
  s3::count_traffic(answered.bucket, traffic_of(answered.verb), answered.in, answered.out, answered.requests);
}

observe::Line line_of(const Answered& answered, const Details& details) {
  observe::Line line;
  line.time_us = details.time_us;
  line.peer = details.peer;
  if (details.who != nullptr) {
    line.access_key = details.who->access_key;
    if (details.who->principal != nullptr) line.principal = details.who->principal->arn;
  }
  if (!details.access_key.empty()) line.access_key = details.access_key;
  line.action = details.action;
  line.path = details.path;
  line.bucket = answered.bucket;
  line.key = details.key;
  line.version = details.version;
  line.source = details.source;
  line.door = door_names[static_cast<size_t>(answered.door)];
  line.transport = to_string(answered.transport);
  line.status = answered.status;
  line.error_code = details.error_code;
  line.bytes_in = details.bytes_in;
  line.bytes_out = details.bytes_out;
  if (answered.transport == rdma::Transport::rdma) line.rdma_bytes = answered.in + answered.out;
  line.duration_us = details.duration_us;
  line.request_id = details.request_id;
  if (details.trace != nullptr) observe::add_stage_times(line, *details.trace);
  return line;
}

void finish(s3::LogEntry& entry, const Answered& answered, const Details& details) {
  s3::finish_log(entry, {answered.status, details.error_code, details.bytes_out, details.duration_us});
}

int status_of(s3::Verb verb, Errc outcome, bool partial) {
  if (outcome != Errc::ok) return s3::error_form(outcome).status;
  if (verb == s3::Verb::remove) return 204;
  return partial ? 206 : 200;
}

}  // namespace verbena::call
