#include "call/account.h"

#include <array>

#include "call/bucket_traffic.h"
#include "call/door_metrics.h"

namespace verbena::call {
namespace {

constexpr int access_denied = 403;
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

observe::Line line_of(const Call& call, const Answered& answered, const Details& details) {
  observe::Line line;
  line.time_us = call.observed->time_us;
  line.peer = call.peer_address;
  line.access_key = call.identity.access_key;
  if (call.identity.principal != nullptr) line.principal = call.identity.principal->arn;
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
  line.request_id = call.request_id;
  return line;
}

// A watcher's own polling, which is left out: each poll would produce a line for the next one.
bool is_a_look(std::string_view action) {
  return action == "admin:trace" || action == "admin:top" || action == "admin:logs";
}

void write(const Observers& observers, const observe::Line& line) {
  if (observers.access_log != nullptr) observers.access_log->write(line);
  if (observers.watch != nullptr && !is_a_look(line.action)) observers.watch->tell(line);
}

// True: the caller has no right to the item, which is counted in the common line of such items.
bool sums_up(RefusedItems& sum, const Answered& answered, const Details& details) {
  ++sum.items;
  if (answered.status != access_denied) return false;
  if (sum.refused++ != 0) return true;
  sum.action = details.action;
  sum.transport = answered.transport;
  sum.bucket = answered.bucket;
  sum.key = details.key;
  sum.version = details.version;
  sum.error_code = details.error_code;
  return true;
}

void write_refused(const Call& call, const Observers& observers, int64_t duration_us) {
  const RefusedItems& sum = call.observed->refused;
  if (sum.refused == 0) return;
  const Answered answered{.door = call.door, .transport = sum.transport, .bucket = sum.bucket, .status = access_denied};
  observe::Line line = line_of(call, answered,
                               {.action = sum.action,
                                .key = sum.key,
                                .version = sum.version,
                                .error_code = sum.error_code,
                                .duration_us = duration_us});
  line.items = sum.refused;
  line.of_items = sum.items;
  write(observers, line);
}

// Lines for the keys of a DeleteObjects. Only the access log has them; watchers see one request.
void write_deletions(Call& call, const Answered& of_request, int64_t duration_us) {
  const Observers log_alone{.access_log = call.observed->by->access_log};
  Answered answered{.door = of_request.door, .transport = of_request.transport, .bucket = of_request.bucket};
  for (const Deletion& deletion : call.outcome.deletions) {
    answered.status = deletion.status;
    const Details details{.action = "DELETE object",
                          .key = deletion.key,
                          .version = deletion.version_id,
                          .error_code = deletion.error_code,
                          .duration_us = duration_us};
    if (!sums_up(call.observed->refused, answered, details)) write(log_alone, line_of(call, answered, details));
  }
  write_refused(call, log_alone, duration_us);
}

}  // namespace

void count(const Answered& answered) {
  if (answered.in != 0) count_bytes(answered.door, answered.transport, Direction::in, answered.in);
  if (answered.out != 0) count_bytes(answered.door, answered.transport, Direction::out, answered.out);
  if (answered.status >= 400 || answered.bucket.empty()) return;
  count_traffic(answered.bucket, traffic_of(answered.verb), answered.in, answered.out, answered.requests);
}

void tell(Call& call, const Answered& answered, const Details& details) {
  for (const auto& record : call.records) {
    if (record != nullptr) record->finish(answered, details);
  }
  Observed* const observed = call.observed;
  if (observed == nullptr) return;
  observe::Line line = line_of(call, answered, details);
  observe::add_stage_times(line, observed->trace);
  write(*observed->by, line);
  if (observed->traced.wanted) {
    observed->by->tracer->end(observed->traced, line, observed->trace, !call.identity.anonymous);
  }
  if (call.outcome.deletions.empty() || observed->by->access_log == nullptr) return;
  write_deletions(call, answered, details.duration_us);
}

void tell_item(Call& call, const Answered& answered, const Details& details) {
  if (details.record != nullptr) details.record->finish(answered, details);
  if (call.observed == nullptr || sums_up(call.observed->refused, answered, details)) return;
  write(*call.observed->by, line_of(call, answered, details));
}

void account_refused(Call& call, int64_t duration_us) {
  if (call.observed != nullptr) write_refused(call, *call.observed->by, duration_us);
}

}  // namespace verbena::call
