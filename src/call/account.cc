#include "call/account.h"

#include "call/bucket_traffic.h"
#include "call/door_metrics.h"

namespace verbena::call {
namespace {

constexpr std::array<std::string_view, 3> door_names{"http", "token", "native"};

Traffic traffic_of(Verb verb) {
  switch (verb) {
    case Verb::get:
      return Traffic::get;
    case Verb::put:
    case Verb::append:
      return Traffic::put;
    default:
      return Traffic::other;
  }
}

}  // namespace

void count(const Answered& answered) {
  if (answered.in != 0) count_bytes(answered.door, answered.transport, Direction::in, answered.in);
  if (answered.out != 0) count_bytes(answered.door, answered.transport, Direction::out, answered.out);
  if (answered.status >= 400 || answered.bucket.empty()) return;
  count_traffic(answered.bucket, traffic_of(answered.verb), answered.in, answered.out, answered.requests);
}

observe::Line line_of(const Answered& answered, const Details& details) {
  observe::Line line;
  line.time_us = details.time_us;
  line.peer = details.peer;
  if (details.who != nullptr) {
    line.access_key = details.who->access_key;
    if (details.who->principal != nullptr) line.principal = details.who->principal->arn;
  }
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

}  // namespace verbena::call
