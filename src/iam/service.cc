#include "iam/service.h"

#include <algorithm>

#include "iam/admin.h"
#include "iam/query.h"
#include "iam/stored.h"
#include "sign_in/counts.h"

namespace verbena::iam {
namespace {

constexpr std::string_view admin_prefix = "/-/admin/";
constexpr std::string_view form_type = "application/x-www-form-urlencoded";

bool starts_with_ignoring_case(std::string_view text, std::string_view lower) {
  if (text.size() < lower.size()) return false;
  for (size_t i = 0; i < lower.size(); ++i) {
    const char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] + 32) : text[i];
    if (c != lower[i]) return false;
  }
  return true;
}

// No access key has a blank.

}  // namespace

Api api_of(std::string_view method, std::string_view path, std::string_view content_type) {
  if (path.starts_with(admin_prefix)) return Api::admin;
  const bool form = starts_with_ignoring_case(content_type, form_type);
  return method == "POST" && path == "/" && form ? Api::query : Api::none;
}

void Service::refuse(Api api, const Error& error, std::string_view request_id, s3::Response& response) {
  if (api == Api::admin) {
    write_admin_error(error, {}, response);
  } else {
    write_error(error, {}, request_id, false, response);
  }
}

Task<void> Service::serve(Api api, const s3::Request& request, const auth::AccessKey& key, const std::string& body,
                          s3::Response& response) {
  if (api == Api::admin) {
    co_await serve_admin(request, key, body, response);
  } else {
    co_await serve_query(request, key, body, response);
  }
}

bool Service::takes_strangers() const {
  if (!sign_in_) return false;
  const uint64_t generation = identities_.generation();
  const uint64_t asked = strangers_asked_.load(std::memory_order_relaxed);
  if (asked >> 1 == generation) return (asked & 1) != 0;
  const auto accounts = identities_.accounts();
  const bool any = std::ranges::any_of(*accounts, [](const auto& a) { return !a.second->open_id_providers.empty(); });
  strangers_asked_.store(generation << 1 | (any ? 1 : 0), std::memory_order_relaxed);
  return any;
}

Task<SignedIn> Service::serve_stranger(const s3::Request& request, const std::string& body, s3::Response& response) {
  const std::string& request_id = request.caller.request_id;
  const std::string client = client_of(request.caller.peer_address);
  const sign_in::Refusal busy{sign_in::Refusal::Kind::busy, "Please reduce your request rate."};
  const auto hold = strangers_.try_hold(client);
  if (hold == nullptr && !is_loopback_client(client)) {
    write_refusal(busy, request_id, response);
    co_return SignedIn();
  }
  const StrangerTools tools{identities_, clock_, sign_in_->keys};
  StrangerReply reply;
  bool last = false;
  auto work = [&]() -> Result<bool> {
    answer_stranger(tools, request.caller, body, last, response, reply);
    return true;
  };
  auto done = co_await sign_in_->pool.run("sign-in", work);
  if (done && reply.wanted) {
    const sign_in::Issuer issuer = std::move(*reply.wanted);
    reply.wanted.reset();
    last = true;
    const auto asked = co_await sign_in_->keys.refresh(issuer);
    // Who cannot be asked now may be known well enough.
    if (asked || sign_in_->keys.find(issuer).keys != nullptr) {
      done = co_await sign_in_->pool.run("sign-in", work);
    } else {
      done = std::unexpected(asked.error());
    }
  }
  if (!done) write_refusal(busy, request_id, response);
  sign_in::sign_ins_counter(reply.who.principal != nullptr).add();
  co_return std::move(reply.who);
}

Task<void> Service::serve_query(const s3::Request& request, const auth::AccessKey& key, const std::string& body,
                                s3::Response& response) {
  auto work = [&]() -> Result<bool> {
    answer_query(identities_, clock_, request.caller, key, body, response);
    return true;
  };
  const auto done = co_await pool_.run("iam", std::move(work));
  if (!done) write_error(done.error(), {}, request.caller.request_id, false, response);
}

Task<void> Service::serve_admin(const s3::Request& request, const auth::AccessKey& key, const std::string& body,
                                s3::Response& response) {
  const std::string name(request.raw_path.substr(admin_prefix.size()));
  if (const auto right = operator_ == nullptr ? std::string_view() : operator_->right_of(name); !right.empty()) {
    const auto allowed = may_operate(request.caller, key, right, clock_);
    if (allowed && request.method == "POST") {
      co_await answer_operator(*operator_, name, body, response);
    } else {
      const Error wrong_method{Errc::method_not_allowed, 0, "iam: admin"};
      write_admin_error(allowed ? wrong_method : allowed.error(), {}, response);
    }
    co_return;
  }
  // A key that ends must not be able to make one that does not.
  if (!key.principal->superuser || key.expires_s != 0) {
    write_admin_error({Errc::access_denied, 0, "Only the server's own root key may administer it."}, {}, response);
    co_return;
  }
  if (request.method != "POST") {
    write_admin_error({Errc::method_not_allowed, 0, "iam: admin"}, {}, response);
    co_return;
  }
  if (is_about_stored(name, body)) {
    co_await answer_stored(identities_, buckets_, quota_changed_, name, body, response);
    co_return;
  }
  if (sets_sizes(name, body) && !buckets_.keeps_usage()) {
    write_admin_error(
        {Errc::not_implemented, 0, "This store does not count what its buckets hold: only rates can be set."}, {},
        response);
    co_return;
  }
  std::set<std::string> owners;
  if (removes_accounts(name)) {
    const auto buckets = co_await buckets_.buckets();
    if (!buckets) {
      write_admin_error(buckets.error(), {}, response);
      co_return;
    }
    for (const auto& bucket : *buckets) owners.insert(bucket.owner);
  }
  auto work = [&]() -> Result<bool> {
    answer_admin(identities_, clock_, name, body, owners, response);
    return true;
  };
  const auto done = co_await pool_.run("admin", std::move(work));
  if (!done) write_admin_error(done.error(), {}, response);
  if (name.starts_with("quota-")) quota_changed_();
}

}  // namespace verbena::iam
