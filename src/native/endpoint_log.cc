// What the access log says of the native door's requests.
#include "base/clock.h"
#include "native/endpoint.h"
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
      return "PUT object";
    case wire::Type::del:
      return "DELETE object";
    case wire::Type::list:
      return "GET bucket?list-type";
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

}  // namespace

// The arguments of a PUT go on to those who store it.
void Endpoint::begin_note(Op& op) const {
  Op::Noted& noted = op.noted;
  noted.time_us = door_->service.clock.now_us();
  noted.began = SteadyClock::now();
  noted.bytes_in = noted.bytes_out = noted.rdma_bytes = 0;
  noted.version.clear();
  switch (static_cast<wire::Type>(op.header.type)) {
    case wire::Type::get:
    case wire::Type::head:
      noted.bucket = op.get.bucket;
      noted.key = op.get.key;
      noted.version = op.get.version_id;
      break;
    case wire::Type::put:
      noted.bucket = op.put.bucket;
      noted.key = op.put.key;
      break;
    default:
      noted.bucket = op.bucket;
      noted.key = static_cast<wire::Type>(op.header.type) == wire::Type::list ? op.list.prefix : op.key;
  }
}

void Endpoint::note(const Op& op) const {
  http::AccessLine line;
  if (action_of(op.header).empty()) return;  // of the session's own making
  tell_caller(line, op.caller);
  tell_outcome(line, op.outcome);
  line.time_us = op.noted.time_us;
  line.action = action_of(op.header);
  line.bucket = op.noted.bucket;
  line.key = op.noted.key;
  line.version = op.noted.version;
  line.bytes_in = op.noted.bytes_in;
  line.bytes_out = op.noted.bytes_out;
  line.rdma_bytes = op.noted.rdma_bytes;
  const auto taken = std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - op.noted.began);
  line.duration_us = taken.count();
  line.request_id = op.caller.request_id;
  door_->options.access_log->write(line);
}

void Endpoint::note_refusal(const Lane& lane, const wire::Header& header, Errc code) const {
  http::AccessLine line;
  tell_caller(line, lane.caller);
  tell_outcome(line, code);
  line.time_us = door_->service.clock.now_us();
  line.action = action_of(header);
  door_->options.access_log->write(line);
}

}  // namespace verbena::native
