// cuObject over reliable connections: the connection behind tokens `rc:<id>:<address>:<size>:<rkey>`. Source: elbencho,
// tools/s3rdma/cuobjclient-shim.
#include "s3_http/dialects/routes.h"
#include "s3_http/token.h"

namespace verbena::s3 {

Task<Result<bool>> rc_connect(DialectCall call) {
  Context& context = call.context;
  const auto peer = rdma::rc::parse_peer_token(context.request.header("x-amz-rdma-token").value_or(""));
  if (!peer || peer->queue_pair == 0 || peer->queue_pair > rdma::rc::number_max) {
    co_return fail(Errc::invalid_argument, "x-amz-rdma-token must be a queue pair's.");
  }
  VB_CO_ASSIGN(const uint32_t sequence, sequence_field(context));
  std::string owner = connection_owner(context.caller());
  VB_CO_ASSIGN(const auto made, co_await call.connections.connections.connect(*peer, sequence, std::move(owner),
                                                                              payer_of(context.caller())));
  context.reply_header("x-amz-rdma-session", made.id);
  context.reply_header("x-amz-rdma-reply", "200:" + rdma::rc::format_peer_token(made.own));
  context.reply_header("x-amz-rdma-psn", hex_text(made.own_sequence, 6));
  co_return true;
}

Result<bool> rc_disconnect(DialectCall call) {
  VB_ASSIGN(const std::string_view id, session_field(call.context));
  call.connections.connections.disconnect(id, connection_owner(call.context.caller()));
  reply_no_content(call.context);
  return true;
}

}  // namespace verbena::s3
