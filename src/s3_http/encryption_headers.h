// x-amz-server-side-encryption* of requests and answers (s3/objects/encryption.h).
#pragma once

#include <string_view>

#include "s3/service.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// x-amz-server-side-encryption* of PutObject, CreateMultipartUpload, CopyObject and a form. invalid_argument,
// invalid_encryption, encryption_key_digest, insecure_customer_key.
Result<EncryptionWish> read_encryption(const Context& context);

// `prefix` + "server-side-encryption-customer-*"; null for none. Errors as read_encryption().
Result<CustomerKeyPtr> read_customer_key(const Context& context, std::string_view prefix);
inline constexpr std::string_view own_key_prefix = "x-amz-";
inline constexpr std::string_view source_key_prefix = "x-amz-copy-source-";

// GET and HEAD accept only a customer's key of the encryption headers. invalid_argument.
Result<void> refuse_encryption_headers(const Context& context);

// The headers of an answer, including those that repeat the request's key.
void add_encryption_headers(Context& context, const store::Attributes& attributes);

}  // namespace verbena::s3
