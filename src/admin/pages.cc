#include "admin/pages.h"

#include "base/exposition.h"
#include "call/request_id.h"
#include "http/health.h"
#include "http/local_request.h"
#include "http/signed_exchange.h"
#include "s3_http/error_response.h"

namespace verbena::admin {
namespace {

Task<void> refuse(http::Exchange& exchange, const Error& error) {
  s3::Response response;
  s3::fill_error(response, error, exchange.path(), call::make_request_id());
  exchange.close_after();  // the body may not have been read
  (void)co_await exchange.reply(response);
}

std::string_view header_of(const http::Exchange& exchange, std::string_view wanted) {
  for (const auto& [name, value] : exchange.headers()) {
    if (name == wanted) return value;
  }
  return {};
}

}  // namespace

http::Handler Pages::handler(http::Handler otherwise, Metrics metrics) {
  return [this, otherwise = std::move(otherwise), metrics](http::Exchange& exchange) {
    return answer(otherwise, metrics, exchange);
  };
}

Task<void> Pages::answer(const http::Handler& otherwise, Metrics metrics, http::Exchange& exchange) {
  const bool served = co_await serve(metrics, exchange);
  if (served) co_return;
  if (otherwise) {
    co_await http::serve_whole(otherwise, exchange);
  } else {
    const Error unknown{Errc::method_not_allowed, 0, "admin: no such page"};
    co_await refuse(exchange, unknown);
  }
}

Task<bool> Pages::serve(Metrics metrics, http::Exchange& exchange) {
  const std::string_view path = exchange.path(), method = exchange.method();
  s3::Response response;
  if (http::asks_health(method, path)) {
    http::answer_health(method, stopping_, response);
  } else if (path == "/-/metrics" && method == "GET") {
    if (auto shown = show_metrics(metrics, exchange, response); !shown) {
      co_await refuse(exchange, shown.error());
      co_return true;
    }
  } else {
    co_return false;
  }
  (void)co_await exchange.reply(response);
  co_return true;
}

Result<void> Pages::show_metrics(Metrics metrics, const http::Exchange& exchange, s3::Response& response) const {
  if (networks_ != nullptr) VB_TRY(networks_->check_transport(exchange.peer_address(), exchange.secure()));
  const bool local = metrics == Metrics::signed_elsewhere && http::is_local(exchange);
  const bool anonymous = networks_ == nullptr || networks_->check_caller(exchange.peer_address(), auth::Identity());
  if (!anonymous || (metrics != Metrics::open && !local)) {
    VB_ASSIGN(const auto verified, http::verify_signed(verifier_, exchange, auth_failures_, networks_));
    const auth::Identity& who = verified.identity;
    if (!auth::is_unlimited_root(who.principal.get(), who.key.get())) {
      return fail(Errc::access_denied, "admin: metrics");
    }
  }
  const metrics::Format format = metrics::format_of(header_of(exchange, "accept"));
  response.headers.emplace_back("content-type", std::string(metrics::content_type(format)));
  response.headers.emplace_back("vary", "Accept");
  response.body = metrics::exposition(format);
  return {};
}

}  // namespace verbena::admin
