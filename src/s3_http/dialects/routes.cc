#include "s3_http/dialects/routes.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "auth/network_rules.h"
#include "base/decimal.h"
#include "base/hex.h"
#include "s3/errors.h"
#include "s3_http/error_response.h"
#include "s3_http/token.h"

namespace verbena::s3 {
namespace {

constexpr std::string_view hipobj_bucket = ".hipobj-rc", rc_bucket = ".s3rdma-rc";
constexpr std::string_view hipobj_protocol = "hipobj-rc-v2";

bool is_rdma_header(std::string_view name) { return name.starts_with("x-amz-rdma-"); }

// Else something between client and server could change the target, or where the bytes go.
Result<void> check_signer(const Context& context, bool anonymous_allowed) {
  const auth::Identity& identity = context.caller().identity;
  if (identity.anonymous && anonymous_allowed) return {};
  if (identity.anonymous) return fail(Errc::access_denied, "RDMA sessions are for signed requests.");
  const auto is_open = [&](const auto& header) {
    return is_rdma_header(header.first) && !identity.signs(header.first);
  };
  if (std::ranges::none_of(context.request.headers, is_open)) return {};
  return fail(Errc::access_denied, "All x-amz-rdma-* headers must be among the signed headers.");
}

// The statuses that these dialects' clients know, where S3 has others.
int dialect_status(const Error& error) {
  switch (error.code) {
    case Errc::entity_too_large:
      return 413;
    case Errc::rdma_transfer_failed:
      return error.sys == ETIMEDOUT ? 408 : 500;
    default:
      return error_form(error.code).status;
  }
}

void answer_dialect_error(Context& context, Error error) {
  if (error.code == Errc::too_large) error.code = Errc::entity_too_large;
  if (error.code == Errc::unsupported) error.code = Errc::rdma_not_supported;
  context.response = Response();
  fill_error(context.response, error, context.request.raw_path, context.caller().request_id);
  context.response.status = dialect_status(error);
  if (error.code == Errc::rdma_not_supported) context.reply_header("x-amz-rdma-protocol-status", "unsupported");
}

Task<Result<bool>> dispatch_hipobj(DialectCall call) {
  Context& context = call.context;
  if (context.request.header("x-amz-rdma-protocol") != hipobj_protocol) {
    co_return fail(Errc::unsupported, "x-amz-rdma-protocol: only hipobj-rc-v2 is served");
  }
  VB_CO_TRY(check_signer(context, false));
  const std::string route = std::exchange(context.key, {});
  context.call.outcome.operation = std::string(hipobj_protocol) + ":" + route;
  if (route == "prepare") co_return co_await hipobj_prepare(call);
  if (route == "ready") co_return co_await hipobj_ready(call);
  co_return hipobj_cancel(call);
}

// Clients of this dialect, whose servers verify no signature, send these calls unsigned.
Task<Result<bool>> dispatch_rc(DialectCall call) {
  Context& context = call.context;
  VB_CO_TRY(check_signer(context, true));
  const std::string route = std::exchange(context.key, {});
  context.call.outcome.operation = "s3rdma-rc:" + route;
  if (route == "connect") co_return co_await rc_connect(call);
  co_return rc_disconnect(call);
}

// Calls that make sessions may be unsigned, and what these move is not encrypted.
Result<void> check_network(const Context& context) {
  if (context.options.networks == nullptr) return {};
  VB_TRY(context.options.networks->check_caller(context.caller().peer_address, context.caller().identity));
  if (const auto refusal = refuse_plain_rdma(context.options, context.caller())) return std::unexpected(*refusal);
  return {};
}

Task<Result<bool>> dispatch(DialectCall call, bool hipobj) {
  VB_CO_TRY(check_network(call.context));
  if (hipobj) co_return co_await dispatch_hipobj(call);
  co_return co_await dispatch_rc(call);
}

}  // namespace

bool is_dialect_route(const Context& context) {
  if (context.request.method != "POST" || !context.bucket.starts_with('.')) return false;
  const std::string_view key = context.key;
  if (context.bucket == hipobj_bucket) return key == "prepare" || key == "ready" || key == "cancel";
  return context.bucket == rc_bucket && (key == "connect" || key == "disconnect");
}

Task<bool> serve_dialect(Context& context, ServeRequest serve) {
  const bool hipobj = std::exchange(context.bucket, {}) == hipobj_bucket;
  rdma::rc::ReliableConnections* const connections = context.options.connections;
  if (connections == nullptr) {
    rdma::count_declined(hipobj ? rdma::TokenForm::hipobj : rdma::TokenForm::cuobject_rc);
    answer_dialect_error(context, {Errc::unsupported, 0, "reliable connections are not served (rdma.token_provider)"});
    co_return true;
  }
  const DialectCall call{context, *connections, serve};
  const auto served = co_await dispatch(call, hipobj);
  const bool declined = !served && (served.error() == Errc::unsupported || served.error() == Errc::rdma_not_supported);
  if (declined) rdma::count_declined(hipobj ? rdma::TokenForm::hipobj : rdma::TokenForm::cuobject_rc);
  if (!served) answer_dialect_error(context, served.error());
  if (hipobj && !declined) context.reply_header("x-amz-rdma-protocol", hipobj_protocol);
  co_return true;
}

Result<uint64_t> hex_field(const Context& context, std::string_view name, size_t digits, const char* what) {
  const auto value = parse_hex(context.request.header(name).value_or(""), digits);
  if (!value) return fail(Errc::invalid_argument, what);
  return *value;
}

Result<uint64_t> decimal_field(const Context& context, std::string_view name, const char* what) {
  const auto value = parse_decimal(context.request.header(name).value_or(""));
  if (!value) return fail(Errc::invalid_argument, what);
  return *value;
}

Result<uint32_t> sequence_field(const Context& context) {
  VB_ASSIGN(const uint64_t value, hex_field(context, "x-amz-rdma-psn", 6, "x-amz-rdma-psn must be 6 hex digits."));
  if (value == 0) return fail(Errc::invalid_argument, "x-amz-rdma-psn must not be 0.");
  return static_cast<uint32_t>(value);
}

Result<std::string_view> session_field(const Context& context) {
  const std::string_view id = context.request.header("x-amz-rdma-session").value_or("");
  if (id.size() != 32 || !is_lower_hex(id)) {
    return fail(Errc::invalid_argument, "x-amz-rdma-session must be 32 hex digits.");
  }
  return id;
}

std::string hex_text(uint64_t value, size_t digits) {
  std::string text;
  append_hex(text, value);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return text;
}

}  // namespace verbena::s3
