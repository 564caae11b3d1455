#include "s3_http/context.h"

#include "memory/whole_body.h"
#include "s3/access/authorize.h"
#include "s3/document_reading.h"
#include "s3/workers/request_log.h"
#include "s3_http/checksum_headers.h"

namespace verbena::s3 {

Task<Result<void>> WatchedSink::begin(uint64_t length) {
  auto done = co_await inner_.begin(length);
  (done ? begun_ : failed_) = true;
  co_return done;
}

Result<memory::AtOnce> WatchedSink::send_at_once(uint64_t length, memory::Pieces& pieces) {
  const auto done = inner_.send_at_once(length, pieces);
  if (done == memory::AtOnce::unsupported) return done;
  begun_ = true;
  failed_ = !done;
  return done;
}

Task<Result<void>> WatchedSink::push(memory::Chunk chunk) {
  auto done = co_await inner_.push(std::move(chunk));
  if (!done) failed_ = true;
  co_return done;
}

Task<Result<void>> WatchedSink::drained() {
  auto done = co_await inner_.drained();
  if (!done) failed_ = true;
  co_return done;
}

Task<Result<void>> WatchedSink::finish() {
  auto done = co_await inner_.finish();
  if (!done) failed_ = true;
  co_return done;
}

std::optional<std::string_view> Context::header(std::string_view name) const {
  if (auto value = request.header(name)) return value;
  for (const auto& [key_, value] : hoisted) {
    if (key_ == name) return value;
  }
  return std::nullopt;
}

void Context::reply_xml(std::string xml) {
  reply_header("content-type", "application/xml");
  response.body = std::move(xml);
}

Task<Result<void>> reserve_answer(Context& context, size_t bytes) {
  memory::Share share(context.service.arena, context.caller().peer_address, bytes);
  VB_CO_ASSIGN(memory::Charge charge, co_await share.take_whole(bytes));
  context.response.charged = std::make_shared<const memory::Charge>(std::move(charge));
  co_return Result<void>();
}

Result<void> renew_caller(Context& context) {
  VB_ASSIGN(Call now, caller_now(context.service, context.caller()));
  context.replaced.push_back(std::exchange(context.call.identity, std::move(now.identity)));
  return {};
}

void note_target(Context& context) {
  call::Outcome& outcome = context.call.outcome;
  LogEntry* const log = log_of(context.call);
  outcome.bucket = std::move(context.bucket);
  outcome.key = std::move(context.key);
  outcome.version_id = context.query.get_or_empty("versionId");
  for (const auto& [name, value] : context.response.headers) {
    if (name == "x-amz-version-id") {
      if (outcome.version_id.empty()) outcome.version_id = value;
      if (log != nullptr) log->record.version_id = value;
    } else if (name == "x-amz-id-2" && log != nullptr) {
      log->record.host_id = value;
    }
  }
}

void reply_no_content(Context& context) {
  context.response.status = 204;
  context.response.no_body = true;
}

namespace {

// Checksums of a long document take milliseconds.
Task<Result<void>> verify_beside(const Context& context, std::string_view text) {
  if (text.size() <= read_at_once_bytes) co_return verify_document(context, text);
  const auto work = [&context, text] { return verify_document(context, text); };
  co_return co_await beside_loop("document", work);
}

}  // namespace

Task<Result<std::string>> read_text(Context& context, size_t bytes_max) {
  auto whole =
      co_await memory::read_whole(context.body, context.service.arena, context.caller().peer_address, bytes_max);
  if (!whole && whole.error() == Errc::too_large) co_return fail(Errc::entity_too_large, "Your request was too big.");
  if (!whole) co_return std::unexpected(whole.error());
  for (memory::Charge& charge : whole->charged) context.charged.push_back(std::move(charge));
  VB_CO_TRY(co_await verify_beside(context, whole->text));
  co_return std::move(whole->text);
}

Task<Result<void>> could_act_on_some(Context& context, const Action& action) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  const Asked asked{.action = action};
  co_return could_authorize(context.service, context.caller(), *access, asked);
}

Task<Result<std::string>> read_document(Context& context, size_t bytes_max) {
  VB_CO_ASSIGN(const BucketAccessPtr before, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(std::string text, co_await read_text(context, bytes_max));
  VB_CO_TRY(renew_caller(context));
  VB_CO_ASSIGN(const BucketAccessPtr now, co_await same_bucket_access(context.service, *before));
  if (context.action != nullptr) {
    const Asked asked{*context.action};
    VB_CO_TRY(authorize(context.service, context.caller(), *now, asked));
    context.made = now->made();
  }
  co_return text;
}

}  // namespace verbena::s3
