// x-amz-rdma-token (docs/s3.md): the same verbs, with the payload moved by one-sided operations.
#pragma once

#include <optional>

#include "rdma/dialect.h"
#include "rdma/rc/places.h"
#include "rdma/token_windows.h"
#include "s3/service.h"
#include "s3_http/context.h"

namespace verbena::s3 {

enum class TokenOutcome : uint8_t {
  done,      // the bytes moved by the token and the response is complete
  declined,  // nothing moved: a GET continues with the body; a PUT's response is complete and reports it
};

// The principal that signed, to which RDMA sessions and connections belong; empty: anonymous.
std::string_view token_owner(const Call& caller);

// What its places are charged to.
rdma::rc::Payer payer_of(const Call& caller);

// The owner of a connection that is made before its tokens: anonymous callers, who share an address, own one together.
std::string connection_owner(const Call& caller);

// Why RDMA without encryption is not for this client: its network requires encryption. nullopt: it may be used.
std::optional<Error> refuse_plain_rdma(const RouterOptions& options, const Call& caller);

// Of a PUT whose bytes move by RDMA: x-verbena-etag: MD5, from clients that compare entity tags. Others do not pay for
// the digest.
Result<bool> wants_md5(const Context& context);

// Headers in which other vendors' clients lend memory. They send no body, read none, and take every 2xx for moved
// bytes: a PUT of theirs would store an empty object, and a GET would seem to have moved.
inline bool is_foreign_token(std::string_view name) { return name == "x-rdma-info" || name == "x-scal-rdma"; }

// The request's token, with the key that seals its bytes if it is of ofi1s. nullopt without one. access_denied when one
// of the two headers is not signed, invalid_rdma_token when one cannot be parsed or they do not belong together,
// invalid_request when the key came without TLS.
Result<std::optional<rdma::Token>> read_token(const Context& context);

// Whether the request lends memory in another vendor's header alone. It is authorized, then refused as this says:
// rdma_not_supported, counted as declined.
bool lends_by_foreign_token(const Context& context);
Result<void> refuse_foreign_token();

// A GET into the client's window. The response holds a GET's headers already; this adds x-amz-rdma-*. When it returns
// `declined`, every write that was posted has been drained, so that the body may follow. Errors are the store's.
Task<Result<TokenOutcome>> push_by_token(Context& context, const OpenObject& object, const rdma::Token& token);

// A PUT or UploadPart out of the client's window. On `done`, `reply` describes the stored object.
struct TokenPut {
  TokenOutcome outcome = TokenOutcome::declined;
  PutReply reply;
};
Task<Result<TokenPut>> put_by_token(Context& context, const rdma::Token& token, PutRequest put);
Task<Result<TokenPut>> upload_part_by_token(Context& context, const rdma::Token& token, UploadPartRequest part);

}  // namespace verbena::s3
