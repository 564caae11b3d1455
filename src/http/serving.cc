#include "http/serving.h"

#include "auth/host.h"
#include "memory/budget.h"

namespace verbena::http {
namespace {

std::string host_of(const s3::Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (name == "host") return auth::host_name(value);
  }
  return {};
}

}  // namespace

std::string_view header_of(const Exchange& exchange, std::string_view wanted) {
  for (const auto& [name, value] : exchange.headers()) {
    if (name == wanted) return value;
  }
  return {};
}

bool in_bucket_host(const HandlerContext& context, const Exchange& exchange) {
  return !auth::virtual_bucket(host_of(exchange.headers()), context.domain).empty();
}

Result<void> check_network(const HandlerContext& context, const Exchange& exchange) {
  if (context.networks == nullptr) return {};
  if (context.network_entry && context.networks->entry_of(exchange.peer_address()) != context.network_entry) {
    return fail(Errc::access_denied, "This address is for clients of other networks.");
  }
  return context.networks->check_transport(exchange.peer_address(), exchange.secure());
}

Result<void> check_account(const HandlerContext& context, const Exchange& exchange, const auth::Identity& caller) {
  if (context.networks == nullptr) return {};
  return context.networks->check_caller(exchange.peer_address(), caller);
}

auth::RequestView view_of(const Exchange& exchange) {
  thread_local std::vector<auth::HeaderView> views;  // verifying does not suspend: one per thread is enough
  views.clear();
  for (const auto& [name, value] : exchange.headers()) views.push_back({name, value});
  return {exchange.method(), exchange.path(), exchange.query(), views};
}

s3::Request make_request(const Exchange& exchange, call::Call& call, std::optional<uint64_t> length) {
  s3::Request request{call};
  request.method = exchange.method();
  request.host = host_of(exchange.headers());
  request.raw_path = exchange.path();
  request.raw_query = exchange.query();
  request.headers = exchange.headers();
  request.content_length = length;
  return request;
}

Result<void> charge_answer(const HandlerContext& context, const Exchange& exchange, s3::Response& response) {
  constexpr size_t free_bytes = 16 * KiB;
  const size_t bytes = response.body.size();
  if (context.arena == nullptr || response.charged != nullptr || bytes <= free_bytes) return {};
  memory::Share share(*context.arena, exchange.peer_address(), bytes);
  auto granted = share.try_whole(bytes);
  if (!granted) return fail(Errc::slow_down, "http: too many answers of this client wait to be read");
  response.charged = std::make_shared<const memory::Charge>(std::move(*granted));
  return {};
}

}  // namespace verbena::http
