// Calls of dialects that connect before a transfer (docs/dialects.md): hipobj-rc-v2's `/.hipobj-rc/` and, for cuObject
// over reliable connections, `/.s3rdma-rc/`. No bucket has such a name.
#pragma once

#include <optional>
#include <string_view>

#include "rdma/rc/reliable_connections.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// Whether a request that is no operation of S3 is one of those calls.
bool is_dialect_route(const Context& context);

// Serves a request of S3: the router's own function. A transfer is an ordinary GetObject, PutObject or UploadPart,
// whose body's source or sink is the connection.
using ServeRequest = Task<bool> (*)(Context&);

// Fills the response.
Task<bool> serve_dialect(Context& context, ServeRequest serve);

// The calls. Errors: unsupported, rdma_not_supported (fall back to HTTP), too_large, no_such_entity,
// conditional_conflict, access_denied, slow_down, invalid_argument, rdma_transfer_failed. False: the response holds the
// error of the transfer's own request.
struct DialectCall {
  Context& context;
  rdma::rc::ReliableConnections& connections;
  ServeRequest serve;
};
Task<Result<bool>> hipobj_prepare(DialectCall call);
Task<Result<bool>> hipobj_ready(DialectCall call);
Result<bool> hipobj_cancel(DialectCall call);
Task<Result<bool>> rc_connect(DialectCall call);
Result<bool> rc_disconnect(DialectCall call);

// Fields of their headers. invalid_argument with `what` for any other text, or none.
Result<uint64_t> hex_field(const Context& context, std::string_view name, size_t digits, const char* what);
Result<uint64_t> decimal_field(const Context& context, std::string_view name, const char* what);
// A packet sequence number: 6 digits, not 0.
Result<uint32_t> sequence_field(const Context& context);
Result<std::string_view> session_field(const Context& context);
std::string hex_text(uint64_t value, size_t digits);

}  // namespace verbena::s3
