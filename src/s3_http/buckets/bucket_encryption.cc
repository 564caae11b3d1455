// GetBucketEncryption, PutBucketEncryption, DeleteBucketEncryption: the encryption of objects whose PUT names none.
#include "s3/documents/bucket_document.h"
#include "s3/objects/encryption.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"
#include "s3_http/buckets/bucket_document.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr const char* root_name = "ServerSideEncryptionConfiguration";
constexpr size_t request_bytes_max = 64 * KiB;

Result<EncryptionWish> parse_rule(const EncryptionOptions& options, const pugi::xml_node& rule) {
  VB_TRY(check_children(rule, {"ApplyServerSideEncryptionByDefault", "BucketKeyEnabled", "BlockedEncryptionTypes"}));
  const pugi::xml_node by_default = rule.child("ApplyServerSideEncryptionByDefault");
  if (!by_default) return fail(Errc::malformed_xml, "encryption: rule");
  VB_TRY(check_children(by_default, {"SSEAlgorithm", "KMSMasterKeyID"}));
  if (rule.child("BlockedEncryptionTypes")) {
    return fail(Errc::not_implemented, "Blocking types of encryption is not implemented.");
  }
  EncryptionWish wish;
  const std::string algorithm = trimmed_text(by_default.child("SSEAlgorithm"));
  const std::string bucket_key = trimmed_text(rule.child("BucketKeyEnabled"));
  wish.kms_key_id = trimmed_text(by_default.child("KMSMasterKeyID"));
  if (!bucket_key.empty() && bucket_key != "true" && bucket_key != "false") {
    return fail(Errc::malformed_xml, "encryption: BucketKeyEnabled");
  }
  wish.bucket_key = bucket_key == "true";
  if (algorithm == "AES256") {
    wish.method = Encryption::aes256;
    if (!wish.kms_key_id.empty()) {
      return fail(Errc::invalid_argument,
                  "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse.");
    }
    return wish;
  }
  if (algorithm == "aws:kms:dsse") return fail(Errc::not_implemented, "Two layers of encryption are not implemented.");
  if (algorithm != "aws:kms") return fail(Errc::malformed_xml, "encryption: SSEAlgorithm");
  wish.method = Encryption::kms;
  VB_TRY(check_kms_key(options, wish.kms_key_id.empty() ? options.kms_default_key : wish.kms_key_id));
  return wish;
}

Result<EncryptionWish> parse_configuration(const EncryptionOptions& options, std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, root_name));
  VB_TRY(check_children(root, {"Rule"}));  // exactly one, as at AWS
  if (!root.child("Rule")) return fail(Errc::malformed_xml, "encryption: no rule");
  return parse_rule(options, root.child("Rule"));
}

std::string configuration_xml(const EncryptionWish& wish) {
  XmlWriter xml(root_name);
  xml.open("Rule");
  xml.open("ApplyServerSideEncryptionByDefault");
  xml.element("SSEAlgorithm", wish.method == Encryption::kms ? "aws:kms" : "AES256");
  if (!wish.kms_key_id.empty()) xml.element("KMSMasterKeyID", wish.kms_key_id);
  xml.close();
  xml.element("BucketKeyEnabled", wish.bucket_key);
  xml.close();
  return xml.finish();
}

}  // namespace

Task<Result<void>> serve_get_encryption(Context& context) {
  auto document = co_await read_bucket_document(context, encryption_document, Errc::no_such_encryption);
  EncryptionWish wish;
  if (document) {
    VB_CO_ASSIGN(wish, parse_default_encryption(**document));
  } else if (document.error() == Errc::no_such_encryption && context.service.encryption.by_default) {
    wish.method = Encryption::aes256;  // the encryption that objects get
  } else {
    co_return std::unexpected(document.error());
  }
  context.reply_xml(configuration_xml(wish));
  co_return Result<void>();
}

Task<Result<void>> serve_put_encryption(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, request_bytes_max));
  VB_CO_ASSIGN(const EncryptionWish wish, parse_configuration(context.service.encryption, text));
  if (context.service.encryption.keys == nullptr) co_return fail(Errc::not_implemented, "The server has no key file.");
  co_return co_await keep_document(context.service, context.made_bucket(), encryption_document,
                                   format_default_encryption(wish));
}

Task<Result<void>> serve_delete_encryption(Context& context) {
  VB_CO_TRY(co_await drop_document(context.service, context.made_bucket(), encryption_document));
  reply_no_content(context);
  co_return Result<void>();
}

}  // namespace verbena::s3
