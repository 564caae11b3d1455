// Encryption headers of requests. Source: AWS, "Protecting data with server-side encryption", "Using server-side
// encryption with customer-provided keys (SSE-C)", "Specifying server-side encryption with AWS KMS (SSE-KMS)".
#include <openssl/crypto.h>

#include <algorithm>

#include "base/hex.h"
#include "s3/names.h"
#include "s3/objects/encryption.h"
#include "s3_http/encryption_headers.h"

namespace verbena::s3 {
namespace {

constexpr size_t customer_key_size = 32;

std::string header_name(std::string_view prefix, std::string_view rest) { return std::string(prefix).append(rest); }

Result<bool> read_flag(const Context& context, std::string_view name) {
  const auto value = context.header(name);
  if (!value || *value == "false") return false;
  if (*value == "true") return true;
  return fail(Errc::invalid_argument, "x-amz-server-side-encryption-bucket-key-enabled must be true or false.");
}

// One pass over the headers instead of three: hardly any request has one of these.
bool has_customer_headers(const Context& context, std::string_view prefix) {
  const auto is_one = [prefix](const auto& header) {
    std::string_view name = header.first;
    if (!name.starts_with(prefix)) return false;
    name.remove_prefix(prefix.size());
    return name.starts_with("server-side-encryption-customer-");
  };
  return std::ranges::any_of(context.request.headers, is_one) || std::ranges::any_of(context.hoisted, is_one);
}

}  // namespace

Result<CustomerKeyPtr> read_customer_key(const Context& context, std::string_view prefix) {
  if (!has_customer_headers(context, prefix)) return nullptr;
  const auto algorithm = context.header(header_name(prefix, "server-side-encryption-customer-algorithm"));
  const auto key = context.header(header_name(prefix, "server-side-encryption-customer-key"));
  const auto md5 = context.header(header_name(prefix, "server-side-encryption-customer-key-md5"));
  if (!algorithm && !key && !md5) return nullptr;
  if (context.service.encryption.customer_keys_need_tls && !context.caller().secure) {
    return fail(Errc::insecure_customer_key, "encryption");
  }
  if (!algorithm) {
    return fail(Errc::invalid_argument,
                "Requests specifying Server Side Encryption with Customer provided keys must provide a valid "
                "encryption algorithm.");
  }
  if (*algorithm != "AES256") return fail(Errc::invalid_encryption, "customer algorithm");
  if (!key) {
    return fail(Errc::invalid_argument,
                "Requests specifying Server Side Encryption with Customer provided keys must provide an appropriate "
                "secret key.");
  }
  if (!md5) {
    return fail(Errc::invalid_argument,
                "Requests specifying Server Side Encryption with Customer provided keys must provide the client "
                "calculated MD5 of the secret key.");
  }
  auto raw = from_base64(*key);
  const bool sound = raw && raw->size() == customer_key_size;
  auto made = std::make_shared<CustomerKey>();
  if (sound) made->key = Secret(*raw);
  if (raw) OPENSSL_cleanse(raw->data(), raw->size());
  if (!sound) return fail(Errc::invalid_argument, "The secret key was invalid for the specified algorithm.");
  Digest digest(Algorithm::md5);
  digest.update(made->key.bytes());
  if (digest.finish_base64() != *md5) return fail(Errc::encryption_key_digest, "encryption");
  made->md5 = *md5;
  return made;
}

Result<EncryptionWish> read_encryption(const Context& context) {
  EncryptionWish wish;
  VB_ASSIGN(wish.customer, read_customer_key(context, own_key_prefix));
  const auto method = context.header("x-amz-server-side-encryption");
  const auto kms_key = context.header("x-amz-server-side-encryption-aws-kms-key-id");
  VB_ASSIGN(wish.bucket_key, read_flag(context, "x-amz-server-side-encryption-bucket-key-enabled"));
  if (kms_key && method != "aws:kms") {
    return fail(Errc::invalid_argument,
                "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : "
                "aws:kms");
  }
  if (wish.customer != nullptr) {
    if (method) {
      return fail(Errc::invalid_argument,
                  "Server Side Encryption with Customer provided key is incompatible with the encryption method "
                  "specified.");
    }
    wish.method = Encryption::customer;
    return wish;
  }
  if (!method) return wish;
  if (*method == "AES256") {
    wish.method = Encryption::aes256;
    return wish;
  }
  if (*method == "aws:kms:dsse") return fail(Errc::not_implemented, "Two layers of encryption are not implemented.");
  if (*method != "aws:kms") return fail(Errc::invalid_argument, "The encryption method specified is not supported.");
  wish.method = Encryption::kms;
  wish.kms_key_id = kms_key.value_or("");
  // The bucket's configuration may have it.
  if (wish.kms_key_id.empty() && is_directory_bucket(context.bucket)) return wish;
  VB_TRY(check_kms_key(context.service.encryption,
                       wish.kms_key_id.empty() ? context.service.encryption.kms_default_key : wish.kms_key_id));
  return wish;
}

Result<void> refuse_encryption_headers(const Context& context) {
  for (const std::string_view name : {"x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id",
                                      "x-amz-server-side-encryption-bucket-key-enabled"}) {
    if (!context.header(name)) continue;
    return fail(Errc::invalid_argument, "x-amz-server-side-encryption header is not supported for this operation.");
  }
  return {};
}

void add_encryption_headers(Context& context, const store::Attributes& attributes) {
  add_encryption_headers(context.response.headers, attributes,
                         context.header("x-amz-server-side-encryption-customer-key-md5"));
}

}  // namespace verbena::s3
