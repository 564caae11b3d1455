// x-amz-server-side-encryption* of requests and answers (s3/objects/encryption.h).
#pragma once

#include <string_view>

#include "s3/service.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// x-amz-server-side-encryption* of PutObject, CreateMultipartUpload, CopyObject and a form. invalid_argument,
// invalid_encryption, encryption_key_digest, insecure_customer_key.
Result<EncryptionWish> read_encryption(const Context& context);

// `prefix` + "server-side-encryption-customer-*"; null when there is none. Errors as read_encryption().
Result<CustomerKeyPtr> read_customer_key(const Context& context, std::string_view prefix);
inline constexpr std::string_view own_key_prefix = "x-amz-";
inline constexpr std::string_view source_key_prefix = "x-amz-copy-source-";

// GET and HEAD take a customer's key and no other encryption header. invalid_argument.
Result<void> refuse_encryption_headers(const Context& context);

// The same of an answer, with what the request said of its key.
void add_encryption_headers(Context& context, const store::Attributes& attributes);

}  // namespace verbena::s3
