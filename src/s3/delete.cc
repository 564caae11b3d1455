// DELETE of one object and of many.
#include <deque>

#include "s3/authorize.h"
#include "s3/checksums.h"
#include "s3/conditions.h"
#include "s3/errors.h"
#include "s3/names.h"
#include "s3/pending.h"
#include "s3/verbs.h"
#include "s3/xml.h"

namespace verbena::s3 {
namespace {

// Deletes in flight of one DeleteObjects request: enough for the engine to commit many with one flush.
constexpr size_t in_flight_max = 32;

// Owns its target: it may outlive the request that started it.
Task<Result<bool>> delete_target(Service& service, Caller caller, std::string bucket, DeleteTarget target) {
  if (target.unsupported_condition) {
    co_return fail(Errc::not_implemented, "Conditions on LastModifiedTime and Size are not implemented.");
  }
  if (target.version_id && !target.version_id->empty() && *target.version_id != "null") {
    co_return fail(Errc::no_such_version, "VersionId");
  }
  store::CommitConditions conditions;
  conditions.if_match = std::move(target.etag);
  VB_CO_TRY(co_await delete_object(service, caller, bucket, target.key, std::move(conditions)));
  co_return true;
}

void write_outcome(XmlWriter& xml, const DeleteTarget& target, const Result<bool>& outcome, bool quiet) {
  if (outcome && quiet) return;
  xml.open(outcome ? "Deleted" : "Error");
  xml.element("Key", target.key);
  if (target.version_id) xml.element("VersionId", *target.version_id);
  if (!outcome) {
    xml.element("Code", error_form(outcome.error().code).code);
    xml.element("Message", error_message(outcome.error()));
  }
  xml.close();
}

}  // namespace

Task<Result<void>> delete_object(Service& service, const Caller& caller, const std::string& bucket,
                                 const std::string& key, store::CommitConditions conditions) {
  VB_CO_TRY(authorize(caller));
  VB_CO_TRY(check_bucket_name(bucket));
  VB_CO_TRY(check_key(key));
  co_return co_await service.store.remove(bucket, key, std::move(conditions));
}

Task<Result<void>> serve_delete_object(Context& context) {
  VB_CO_TRY(check_version(context));
  VB_CO_ASSIGN(store::CommitConditions conditions, read_commit_conditions(context));
  if (conditions.if_none_match) co_return fail(Errc::not_implemented, "If-None-Match is not implemented for deletes.");
  VB_CO_TRY(
      co_await delete_object(context.service, context.caller(), context.bucket, context.key, std::move(conditions)));
  context.response.status = 204;
  context.response.no_body = true;
  co_return Result<void>();
}

Task<Result<void>> serve_delete_objects(Context& context) {
  VB_CO_TRY(require_digest(context));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, xml_bytes_max));
  VB_CO_ASSIGN(const DeleteDocument document, parse_delete(text));
  // A missing bucket fails the request, not each key.
  VB_CO_TRY(co_await head_bucket(context.service, context.caller(), context.bucket));

  XmlWriter xml("DeleteResult");
  auto executor = co_await boost::asio::this_coro::executor;
  std::deque<Pending<bool>> pending;
  size_t started = 0;
  for (size_t i = 0; i < document.targets.size(); ++i) {
    for (; started < document.targets.size() && pending.size() < in_flight_max; ++started) {
      pending.emplace_back(executor,
                           delete_target(context.service, context.caller(), context.bucket, document.targets[started]));
    }
    Pending<bool> first = std::move(pending.front());
    pending.pop_front();
    const auto outcome = co_await first.wait();
    write_outcome(xml, document.targets[i], outcome, document.quiet);
  }
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
