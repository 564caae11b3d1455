#include "s3_http/request_record.h"

#include <string>
#include <utility>

#include "auth/auth.h"

namespace verbena::s3 {
namespace {

// How the request proved who sends it.
void describe_signature(const Context& context, LogRecord& record) {
  if (context.caller().identity.anonymous) return;
  name_requester(context.caller(), record);
  const auto authorization = context.request.header("authorization");
  record.auth_type = authorization ? "AuthHeader" : "QueryString";
  const bool version4 = authorization ? authorization->starts_with("AWS4-") : context.query.has("X-Amz-Signature");
  record.signature = version4 ? "SigV4" : "SigV2";
}

void describe_sender(const Context& context, LogRecord& record) {
  const auto text = [&](std::string_view name) { return std::string(context.request.header(name).value_or("")); };
  record.time_s = context.service.clock.now_s();
  record.peer = context.caller().peer_address;
  record.request_id = context.caller().request_id;
  record.referer = log_referer(context.request.header("referer").value_or(""));
  record.user_agent = text("user-agent");
  record.host = text("host");
  describe_signature(context, record);
}

}  // namespace

bool buckets_have_logs(const Context& context) {
  const RequestLog* const log = context.service.request_log;
  return log != nullptr && log->in_use();
}

Task<> begin_record(Context& context, std::string_view selector) {
  auto entry = co_await context.service.request_log->begin(context.bucket);
  if (!entry) co_return;
  LogRecord& record = entry->record;
  describe_sender(context, record);
  record.key = context.key;
  record.operation = log_operation(context.request.method, !context.key.empty(), selector);
  record.request = log_request_line(context.request.method, context.request.raw_path, context.request.raw_query);
  record.version_id = context.query.get_or_empty("versionId");
  context.call.records.push_back(std::move(entry));
}

// Source: Amazon S3 User Guide, "Access log information for Amazon S3 copy operations". The request line is not the
// request's own, which would tell the source's owner where the copy is.
Task<> begin_source_record(Context& context, const CopySource& source) {
  if (!buckets_have_logs(context)) co_return;
  auto entry = co_await context.service.request_log->begin(source.bucket);
  if (!entry) co_return;
  entry->of_source = true;
  LogRecord& record = entry->record;
  describe_sender(context, record);
  record.key = source.key;
  record.version_id = source.version_id;
  record.operation = context.query.has("uploadId") ? "REST.COPY.PART_GET" : "REST.COPY.OBJECT_GET";
  const std::string path = "/" + auth::uri_encode(source.bucket, true) + "/" + auth::uri_encode(source.key, true);
  const std::string query = source.version_id.empty() ? std::string() : "versionId=" + source.version_id;
  record.request = log_request_line("GET", path, query);
  context.call.records.push_back(std::move(entry));
}

void add_source_size(Context& context, uint64_t size) {
  for (const auto& record : context.call.records) {
    auto& entry = static_cast<LogEntry&>(*record);
    if (entry.of_source) entry.record.object_size = size;
  }
}

}  // namespace verbena::s3
