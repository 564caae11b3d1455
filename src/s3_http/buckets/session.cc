// CreateSession: credentials of five minutes for one directory bucket. A session is stored entirely in its
// authenticated token (auth/bucket_token.h, auth/session_token.h): the server keeps nothing of it, and verifying a
// request reads no disk.
#include "base/date.h"
#include "s3/access/authorize.h"
#include "s3/names.h"
#include "s3/objects/encryption.h"
#include "s3/xml.h"
#include "s3_http/encryption_headers.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

Result<auth::BucketSession> read_session(const Context& context) {
  auth::BucketSession session;
  session.bucket = context.bucket;
  const auto mode = context.header("x-amz-create-session-mode").value_or("ReadWrite");
  if (mode != "ReadOnly" && mode != "ReadWrite") {
    return fail(Errc::invalid_argument, "x-amz-create-session-mode must be ReadOnly or ReadWrite.");
  }
  session.read_only = mode == "ReadOnly";
  VB_ASSIGN(const EncryptionWish wish, read_encryption(context));
  if (wish.method == Encryption::none) return session;
  if (context.service.encryption.keys == nullptr) return fail(Errc::not_implemented, "The server has no key file.");
  if (wish.method == Encryption::kms) {
    session.kms_key_id = wish.kms_key_id.empty() ? context.service.encryption.kms_default_key : wish.kms_key_id;
    VB_TRY(check_kms_key(context.service.encryption, session.kms_key_id));
  }
  session.encryption = wish.method == Encryption::kms ? "aws:kms" : "AES256";
  return session;
}

void add_session_headers(Context& context, const auth::BucketSession& session) {
  if (session.encryption.empty()) return;
  context.reply_header("x-amz-server-side-encryption", session.encryption);
  if (session.kms_key_id.empty()) return;
  context.reply_header("x-amz-server-side-encryption-aws-kms-key-id", session.kms_key_id);
}

}  // namespace

Task<Result<void>> serve_create_session(Context& context) {
  if (!is_directory_bucket(context.bucket)) co_return fail(Errc::not_implemented, "a session of no directory bucket");
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(const auth::BucketSession session, read_session(context));
  const Asked asked{.action = action::create_session, .session_mode = session.read_only ? "ReadOnly" : "ReadWrite"};
  VB_CO_TRY(authorize(context.service, context.caller(), *access, asked));
  const auth::AccessKeyPtr key = context.caller().identity.key;
  if (context.service.credentials == nullptr || key == nullptr) {
    co_return fail(Errc::not_implemented, "this server makes no sessions");
  }
  VB_CO_ASSIGN(const auto made, context.service.credentials->open_bucket_session(
                                    *key, session, context.service.clock.now_us() / 1'000'000));
  XmlWriter xml("CreateSessionResult");
  xml.open("Credentials");
  xml.element("SessionToken", made.credentials.session_token);
  xml.element("SecretAccessKey", made.credentials.secret_key);
  xml.element("AccessKeyId", made.credentials.access_key);
  xml.element("Expiration", format_iso8601(made.expires_s * 1'000'000));
  xml.close();
  add_session_headers(context, session);
  context.reply_header("cache-control", "no-store");
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
