// Configurations of a bucket with only one possible state here. Reading returns that state; setting it succeeds;
// setting any other one is refused, so that no client relies on it. docs/s3.md lists them.
#include "s3/xml.h"
#include "s3/xml_reader.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t configuration_bytes_max = 64 * KiB;

Task<Result<void>> bucket_exists(Context& context) {
  VB_CO_TRY(co_await context.service.store.bucket(context.bucket));
  co_return Result<void>();
}

// The text of `element` in a request document with that root; empty if it is missing.
Task<Result<std::string>> read_setting(Context& context, const char* root, const char* element) {
  VB_CO_TRY(co_await bucket_exists(context));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, configuration_bytes_max));
  pugi::xml_document document;
  VB_CO_ASSIGN(const pugi::xml_node node, load_xml(document, text, root));
  co_return trimmed_text(node.child(element));
}

Task<Result<void>> reply_empty(Context& context, std::string_view root) {
  VB_CO_TRY(co_await bucket_exists(context));
  XmlWriter xml(root);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> nothing_there(Context& context, Errc missing) {
  VB_CO_TRY(co_await bucket_exists(context));
  co_return fail(missing, "bucket configuration");
}

Task<Result<void>> nothing_to_delete(Context& context) {
  VB_CO_TRY(co_await bucket_exists(context));
  reply_no_content(context);
  co_return Result<void>();
}

}  // namespace

Task<Result<void>> serve_get_accelerate(Context& context) {
  co_return co_await reply_empty(context, "AccelerateConfiguration");
}

Task<Result<void>> serve_put_accelerate(Context& context) {
  VB_CO_ASSIGN(const std::string status, co_await read_setting(context, "AccelerateConfiguration", "Status"));
  if (status == "Suspended") co_return Result<void>();
  if (status != "Enabled") co_return fail(Errc::malformed_xml, "accelerate");
  co_return fail(Errc::not_implemented, "Transfer acceleration is not implemented.");
}

Task<Result<void>> serve_get_request_payment(Context& context) {
  VB_CO_TRY(co_await bucket_exists(context));
  XmlWriter xml("RequestPaymentConfiguration");
  xml.element("Payer", "BucketOwner");
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_put_request_payment(Context& context) {
  VB_CO_ASSIGN(const std::string payer, co_await read_setting(context, "RequestPaymentConfiguration", "Payer"));
  if (payer == "BucketOwner") co_return Result<void>();
  if (payer != "Requester") co_return fail(Errc::malformed_xml, "request payment");
  co_return fail(Errc::not_implemented, "Requester pays is not implemented.");
}

Task<Result<void>> serve_get_website(Context& context) {
  co_return co_await nothing_there(context, Errc::no_such_website);
}

Task<Result<void>> serve_get_replication(Context& context) {
  co_return co_await nothing_there(context, Errc::no_such_replication);
}

Task<Result<void>> serve_delete_absent(Context& context) { co_return co_await nothing_to_delete(context); }

}  // namespace verbena::s3
