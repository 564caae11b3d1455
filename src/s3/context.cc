#include "s3/context.h"

#include "s3/access/authorize.h"
#include "s3/objects/checksums.h"
#include "s3/xml.h"

namespace verbena::s3 {

Task<Result<void>> WatchedSink::begin(uint64_t length) {
  auto done = co_await inner_.begin(length);
  (done ? begun_ : failed_) = true;
  co_return done;
}

std::optional<Result<bool>> WatchedSink::send_at_once(memory::Chunk&& whole) {
  auto done = inner_.send_at_once(std::move(whole));
  if (done) {
    begun_ = true;
    failed_ = !*done;
  }
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

Task<Result<size_t>> WatchedSource::read(MutableBytes into) {
  auto done = co_await inner_.read(into);
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

void reply_no_content(Context& context) {
  context.response.status = 204;
  context.response.no_body = true;
}

Task<Result<std::string>> read_text(Context& context, size_t bytes_max) {
  if (context.body.size().value_or(0) > bytes_max) co_return fail(Errc::entity_too_large, "Your request was too big.");
  constexpr size_t step = 16 * KiB;
  std::string text;
  for (;;) {
    const size_t have = text.size();
    text.resize(have + step);
    const auto room = std::as_writable_bytes(std::span(text)).subspan(have);
    VB_CO_ASSIGN(const size_t got, co_await context.body.read(room));
    text.resize(have + got);
    if (text.size() > bytes_max) co_return fail(Errc::entity_too_large, "Your request was too big.");
    if (got < step) break;
  }
  VB_CO_TRY(verify_document(context, text));
  co_return text;
}

Task<Result<std::string>> read_document(Context& context, size_t bytes_max) {
  VB_CO_ASSIGN(const BucketAccessPtr before, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(std::string text, co_await read_text(context, bytes_max));
  VB_CO_ASSIGN(context.renewed, caller_now(context.service, context.caller()));
  VB_CO_ASSIGN(const BucketAccessPtr now, co_await same_bucket_access(context.service, *before));
  if (context.action != nullptr) {
    const Asked asked{*context.action};
    VB_CO_TRY(authorize(context.service, context.caller(), *now, asked));
  }
  co_return text;
}

}  // namespace verbena::s3
