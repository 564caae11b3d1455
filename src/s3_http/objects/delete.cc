// DELETE of one object and of many.
#include <deque>

#include "base/date.h"
#include "base/decimal.h"
#include "base/turns.h"
#include "base/xml_escape.h"
#include "s3/access/authorize.h"
#include "s3/document_reading.h"
#include "s3/errors.h"
#include "s3/events/announce.h"
#include "s3/names.h"
#include "s3/objects/delete.h"
#include "s3/objects/pending.h"
#include "s3/workers/request_log.h"
#include "s3/xml.h"
#include "s3_http/checksum_headers.h"
#include "s3_http/objects/condition_headers.h"
#include "s3_http/objects/lock.h"
#include "s3_http/objects/versions.h"
#include "s3_http/request_documents.h"
#include "s3_http/request_rates.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

// Deletes in flight of one DeleteObjects request: enough for the engine to commit many with one flush.
constexpr size_t in_flight_max = 32;
constexpr size_t outcome_bytes = 256;  // for one key in the answer, besides the key

store::CommitConditions conditions_of(const DeleteTarget& target) {
  store::CommitConditions conditions;
  conditions.if_match = target.etag;
  conditions.if_modified_s = target.modified_s;
  conditions.if_size = target.size;
  return conditions;
}

// Owns its target: it may outlive the request that started and authorized it.
Task<Result<store::Removed>> delete_target(Service& service, BucketAccessPtr access, DeleteTarget target,
                                           Result<bool> bypass_governance, store::AnnouncementPtr announcement) {
  VB_CO_TRY(bypass_governance);
  VB_CO_TRY(check_key(target.key));
  store::RemoveRequest request;
  request.version_id = target.version_id.value_or("");
  request.bypass_governance = *bypass_governance;
  request.conditions = conditions_of(target);
  request.conditions.announcement = std::move(announcement);
  co_return co_await remove_with_room(service, std::move(access), std::move(target.key), std::move(request));
}

// From a request, whose key may have megabytes: longer than any existing one, and returned as sent.
Task<void> write_long_key(XmlWriter& xml, std::string_view key, Turns& turns) {
  constexpr size_t piece_bytes = 16 * KiB;
  std::string scratch;
  xml.raw({"<Key>"});
  for (; !key.empty(); key.remove_prefix(std::min(piece_bytes, key.size()))) {
    if (turns.due()) co_await turns.pass();
    xml.raw({xml_escaped(key.substr(0, piece_bytes), scratch)});
  }
  xml.raw({"</Key>"});
}

// Closes an element whose key is already written.
void end_outcome(XmlWriter& xml, const DeleteTarget& target, const Result<store::Removed>& outcome) {
  if (target.version_id) xml.element("VersionId", *target.version_id);
  if (outcome && outcome->delete_marker) {
    xml.element("DeleteMarker", true);
    xml.element("DeleteMarkerVersionId", outcome->version_id);
  }
  if (!outcome) {
    xml.element("Code", error_form(outcome.error().code).code);
    xml.element("Message", error_message(outcome.error()));
  }
  xml.close();
}

// Records one key's outcome: in the bucket's log at once, and for observers at the end of the request.
void note_deletion(Call& call, bool observed, const DeleteTarget& target, const Result<store::Removed>& outcome) {
  call::Deletion deletion{target.key, target.version_id.value_or(""), {}};
  if (!outcome) {
    const auto form = error_form(outcome.error().code);
    deletion.error_code = form.code;
    deletion.status = form.status;
  } else if (outcome->delete_marker) {
    deletion.version_id = outcome->version_id;
  }
  if (LogEntry* const log = log_of(call)) log->log.add_deletion(*log, deletion);
  if (observed) call.outcome.deletions.push_back(std::move(deletion));
}

// The caller and the bucket's record, refreshed.
Task<Result<void>> renew(Context& context, BucketAccessPtr& access) {
  VB_CO_TRY(renew_caller(context));
  VB_CO_ASSIGN(access, co_await same_bucket_access(context.service, *access));
  co_return Result<void>();
}

// If-Match, x-amz-if-match-last-modified-time and x-amz-if-match-size.
Result<store::CommitConditions> read_remove_conditions(const Context& context) {
  VB_ASSIGN(store::CommitConditions conditions, read_commit_conditions(context));
  if (const auto header = context.header("x-amz-if-match-last-modified-time")) {
    conditions.if_modified_s = parse_http_date(*header);
    if (!conditions.if_modified_s) return fail(Errc::invalid_argument, "A condition on time is not a date.");
  }
  if (const auto header = context.header("x-amz-if-match-size")) {
    conditions.if_size = parse_decimal(*header);
    if (!conditions.if_size) return fail(Errc::invalid_argument, "A condition on size is not a number.");
  }
  return conditions;
}

}  // namespace

Task<Result<void>> serve_delete_object(Context& context) {
  store::RemoveRequest request;
  VB_CO_ASSIGN(request.version_id, read_version_id(context));
  VB_CO_ASSIGN(request.conditions, read_remove_conditions(context));
  request.bypass_governance = bypasses_governance(context);
  auto removed =
      co_await s3::delete_object(context.service, context.caller(), context.bucket, context.key, std::move(request));
  if (!removed && removed.error() == Errc::precondition_failed) {
    context.error_fields.emplace_back("Condition", removed.error().context);
  }
  VB_CO_TRY(removed);
  add_version_id(context.response, removed->version_id);
  if (removed->delete_marker) context.reply_header("x-amz-delete-marker", "true");
  reply_no_content(context);
  co_return Result<void>();
}

Task<Result<void>> serve_delete_objects(Context& context) {
  // Each key is authorized by itself: one with a version by another action.
  const auto keys = co_await could_act_on_some(context, action::delete_object);
  if (!keys) VB_CO_TRY(co_await could_act_on_some(context, action::delete_version));
  VB_CO_TRY(require_digest(context));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, xml_bytes_max));
  VB_CO_ASSIGN(const DeleteDocument document, co_await read_beside(text, parse_delete));
  // Each key is a request; the first was counted before the document was read.
  if (document.targets.size() > 1) VB_CO_TRY(co_await count_requests(context, document.targets.size() - 1));
  // The answer names every key again.
  VB_CO_TRY(co_await reserve_answer(context, text.size() + document.targets.size() * outcome_bytes));
  VB_CO_TRY(renew_caller(context));  // it may have taken a while
  // A missing bucket fails the request, not each key.
  VB_CO_ASSIGN(BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  Result<void> still;  // the error for the remaining keys, if any

  XmlWriter xml("DeleteResult");
  auto executor = co_await boost::asio::this_coro::executor;
  std::deque<Pending<store::Removed>> pending;
  const bool bypass = bypasses_governance(context);
  // The access log has each key; their number is bounded by the document's size.
  const bool observed = context.caller().trace != nullptr;
  size_t started = 0;
  Turns turns;  // authorization key by key may take long, depending on policies
  for (size_t i = 0; i < document.targets.size(); ++i) {
    for (; started < document.targets.size() && pending.size() < in_flight_max; ++started) {
      if (turns.due()) co_await turns.pass();
      // Many keys take a while: the rights are checked again in between.
      if (still && may_have_changed(context.service, context.caller(), *access)) {
        still = co_await renew(context, access);
      }
      const DeleteTarget& target = document.targets[started];
      const store::CommitConditions conditions = conditions_of(target);
      auto may = still ? authorize_delete(context.service, context.caller(), *access, target.key,
                                          target.version_id.value_or(""), conditions, bypass)
                       : std::unexpected(still.error());
      if (may) {
        const ObjectName name{target.key, target.version_id ? std::string_view(*target.version_id) : ""};
        const auto met = co_await authorize_conditions(context.service, context.caller(), *access, name, conditions);
        if (!met) may = std::unexpected(met.error());
      }
      auto event = announce(context.service, *access, context.caller(), EventCause::remove, target.key);
      pending.emplace_back(executor, delete_target(context.service, access, target, may, std::move(event)));
    }
    Pending<store::Removed> first = std::move(pending.front());
    pending.pop_front();
    const auto outcome = co_await first.wait();
    if (turns.due()) co_await turns.pass();
    const DeleteTarget& target = document.targets[i];
    if (!outcome || !document.quiet) {
      xml.open(outcome ? "Deleted" : "Error");
      if (target.key.size() > store::key_size_max) {
        co_await write_long_key(xml, target.key, turns);
      } else {
        xml.element("Key", target.key);
      }
      end_outcome(xml, target, outcome);
    }
    if (context.call.is_told()) note_deletion(context.call, observed, target, outcome);
  }
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
