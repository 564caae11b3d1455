// Configurations of a bucket that are kept and given back: CORS, tags, ownership controls, the public access block.
#include "s3/bucket_document.h"

#include <array>

#include "s3/checksums.h"
#include "s3/cors.h"
#include "s3/ownership.h"
#include "s3/tag_set.h"
#include "s3/verbs.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"

namespace verbena::s3 {
namespace {

constexpr size_t document_bytes_max = 64 * KiB;  // of a request (AWS's limit for CORS; the others are smaller)
constexpr std::array<const char*, 4> public_access_flags = {"BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy",
                                                            "RestrictPublicBuckets"};

Task<Result<void>> reply_document(Context& context, std::string_view name, Errc missing) {
  VB_CO_ASSIGN(const store::Document document, co_await read_bucket_document(context, name, missing));
  context.reply_xml(*document);
  co_return Result<void>();
}

Task<Result<void>> keep_document(Context& context, std::string_view name, std::string xml) {
  co_return co_await context.service.store.set_document(context.bucket, name, std::move(xml));
}

Task<Result<void>> drop_document(Context& context, std::string_view name) {
  VB_CO_TRY(co_await context.service.store.remove_document(context.bucket, name));
  reply_no_content(context);
  co_return Result<void>();
}

// Each flag as it was given, false where it was not.
Result<std::string> parse_public_access(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "PublicAccessBlockConfiguration"));
  XmlWriter xml("PublicAccessBlockConfiguration");
  for (const char* flag : public_access_flags) {
    const std::string value = trimmed_text(root.child(flag));
    if (!value.empty() && value != "true" && value != "false" && value != "TRUE" && value != "FALSE") {
      return fail(Errc::malformed_xml, "xml: PublicAccessBlockConfiguration");
    }
    xml.element(flag, value == "true" || value == "TRUE");
  }
  return xml.finish();
}

}  // namespace

Task<Result<store::Document>> read_bucket_document(Context& context, std::string_view name, Errc missing) {
  auto document = co_await context.service.store.document(context.bucket, name);
  if (!document && document.error() == Errc::not_found) co_return fail(missing, "bucket document");
  co_return document;
}

Result<std::string> ownership_xml(std::string_view ownership) {
  if (ownership != "BucketOwnerEnforced" && ownership != "BucketOwnerPreferred" && ownership != "ObjectWriter") {
    return fail(Errc::malformed_xml, "object ownership");
  }
  XmlWriter xml("OwnershipControls");
  xml.open("Rule");
  xml.element("ObjectOwnership", ownership);
  return xml.finish();
}

Task<Result<void>> serve_get_bucket_cors(Context& context) {
  co_return co_await reply_document(context, cors_document, Errc::no_such_cors);
}

Task<Result<void>> serve_put_bucket_cors(Context& context) {
  VB_CO_TRY(require_digest(context));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, document_bytes_max));
  VB_CO_ASSIGN(const auto rules, parse_cors(text));
  co_return co_await keep_document(context, cors_document, cors_xml(rules));
}

Task<Result<void>> serve_delete_bucket_cors(Context& context) {
  co_return co_await drop_document(context, cors_document);
}

Task<Result<void>> serve_get_bucket_tagging(Context& context) {
  co_return co_await reply_document(context, tagging_document, Errc::no_such_tag_set);
}

Task<Result<void>> serve_put_bucket_tagging(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, document_bytes_max));
  VB_CO_ASSIGN(const auto tags, parse_tagging(text, bucket_tags_max));
  co_return co_await keep_document(context, tagging_document, tagging_xml(tags));
}

Task<Result<void>> serve_delete_bucket_tagging(Context& context) {
  co_return co_await drop_document(context, tagging_document);
}

Task<Result<void>> serve_get_ownership_controls(Context& context) {
  co_return co_await reply_document(context, ownership_document, Errc::no_such_ownership_controls);
}

Task<Result<void>> serve_put_ownership_controls(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, document_bytes_max));
  pugi::xml_document document;
  VB_CO_ASSIGN(const pugi::xml_node root, load_xml(document, text, "OwnershipControls"));
  VB_CO_ASSIGN(std::string xml, ownership_xml(trimmed_text(root.child("Rule").child("ObjectOwnership"))));
  co_return co_await keep_document(context, ownership_document, std::move(xml));
}

Task<Result<void>> serve_delete_ownership_controls(Context& context) {
  co_return co_await drop_document(context, ownership_document);
}

Task<Result<void>> serve_get_public_access_block(Context& context) {
  co_return co_await reply_document(context, public_access_document, Errc::no_such_public_access_block);
}

Task<Result<void>> serve_put_public_access_block(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, document_bytes_max));
  VB_CO_ASSIGN(std::string xml, parse_public_access(text));
  co_return co_await keep_document(context, public_access_document, std::move(xml));
}

Task<Result<void>> serve_delete_public_access_block(Context& context) {
  co_return co_await drop_document(context, public_access_document);
}

}  // namespace verbena::s3
