#include "iam/service.h"

#include <algorithm>

#include "base/log.h"
#include "iam/admin.h"
#include "iam/query.h"
#include "iam/stored.h"
#include "s3_http/query.h"
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

// Empty for callers that must not be counted as one client: a proxy on this host acts for all its clients.
std::string counted_client(std::string_view peer) {
  std::string client = client_of(peer);
  return is_loopback_client(client) ? std::string() : client;
}

const sign_in::Refusal& busy() {
  static const sign_in::Refusal refusal{sign_in::Refusal::Kind::busy, "Please reduce your request rate."};
  return refusal;
}

// A parameter that is ignored may be a limit. Those of a signature in the URL are none: verify_call() has read them.
bool has_parameters_of_a_call(std::string_view query) {
  const auto arguments = s3::Query::parse(query);
  const auto of_a_signature = [](const auto& one) { return one.first.starts_with("X-Amz-"); };
  return !arguments || !std::ranges::all_of(arguments->items(), of_a_signature);
}

const Error& in_two_places() {
  static const Error refusal{Errc::validation_error, 0, "Parameters must be in the form alone, not in the URL, too."};
  return refusal;
}

}  // namespace

Api api_of(std::string_view method, std::string_view path, std::string_view content_type) {
  if (path.starts_with(admin_prefix)) return Api::admin;
  const bool form = starts_with_ignoring_case(content_type, form_type);
  return method == "POST" && path == "/" && form ? Api::query : Api::none;
}

bool is_query_in_url(std::string_view method, std::string_view path, std::string_view query) {
  return method == "POST" && path == "/" &&
         ("&" + std::string(query)).find("&Action=AssumeRoleWith") != std::string::npos;
}

// The service acts on the parsed form, where "%41ction=" is an Action, too.
std::string operation_of(Api api, std::string_view path, std::string_view form) {
  std::string name;
  if (api == Api::admin) {
    name = path.substr(std::min(admin_prefix.size(), path.size()));
  } else if (const auto parameters = Parameters::parse(form)) {
    name = parameters->get_or_empty("Action");
  }
  constexpr size_t longest = 64;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  name.resize(std::min(name.size(), longest));
  name.erase(std::ranges::find_if_not(name, plain), name.end());
  return (api == Api::admin ? "admin:" : "iam:") + name;
}

void Service::refuse(Api api, const Error& error, std::string_view request_id, s3::Response& response) {
  if (api == Api::admin) {
    write_admin_error(error, {}, response);
  } else {
    write_error(error, {}, request_id, false, response);
  }
}

Task<auth::PrincipalPtr> Service::serve(Api api, const s3::Request& request, const auth::AccessKey& key,
                                        const std::string& body, s3::Response& response) {
  if (api != Api::admin) co_return co_await serve_query(request, key, body, response);
  co_await serve_admin(request, key, body, response);
  co_return nullptr;
}

bool Service::takes_federated() const {
  if (!sign_in_) return false;
  if (sign_in_->directory != nullptr || sign_in_->authority != nullptr) return true;
  const uint64_t generation = identities_.generation();
  const uint64_t asked = takes_federated_.load(std::memory_order_relaxed);
  if (asked >> 1 == generation) return (asked & 1) != 0;
  const auto accounts = identities_.accounts();
  const bool any = std::ranges::any_of(*accounts, [](const auto& a) { return !a.second->open_id_providers.empty(); });
  takes_federated_.store(generation << 1 | (any ? 1 : 0), std::memory_order_relaxed);
  return any;
}

// One unsigned call in progress.
struct Service::Asking {
  std::string client;  // empty: not counted
  FederatedReply reply{};
  const CertificatesOf& certificates_of;
  std::optional<DirectoryAnswer> person{};
  std::optional<std::vector<std::string>> certificates{};
  bool last = false;
};

// Obtains the data needed to answer the call. An error: not available now.
Task<Result<void>> Service::ask_first(Asking& asking) {
  if (asking.reply.question) co_return co_await ask_directory(asking);
  if (asking.reply.certificates) {
    asking.reply.certificates = false;
    asking.certificates = asking.certificates_of();
    co_return Result<void>();
  }
  const sign_in::Issuer issuer = std::move(*asking.reply.wanted);
  asking.reply.wanted.reset();
  asking.last = true;
  const auto asked = co_await sign_in_->keys->refresh(issuer);
  // A provider that cannot be asked now may have cached keys.
  if (asked || sign_in_->keys->find(issuer).keys != nullptr) co_return Result<void>();
  co_return std::unexpected(asked.error());
}

Task<Result<void>> Service::ask_directory(Asking& asking) {
  const DirectoryQuestion question = std::move(*asking.reply.question);
  asking.reply.question.reset();
  const auto hold = at_directory_.try_hold(asking.client);
  if (hold == nullptr && !asking.client.empty())
    co_return fail(Errc::slow_down, "iam: too many wait for the directory");
  auto work = [&]() -> Result<bool> {
    asking.person = sign_in_->directory->check(asking.client, question.name, question.password);
    return true;
  };
  const auto done = co_await sign_in_->directory_pool->run("directory", work);
  if (!done) co_return std::unexpected(done.error());
  co_return Result<void>();
}

Task<SignedIn> Service::serve_federated(const s3::Request& request, const std::string& body,
                                        const CertificatesOf& certificates, s3::Response& response) {
  const std::string& request_id = request.call.request_id;
  Asking asking{.client = counted_client(request.call.peer_address), .certificates_of = certificates};
  const auto hold = federated_.try_hold(asking.client);
  if (hold == nullptr && !asking.client.empty()) {
    write_refusal(busy(), request_id, response);
    co_return SignedIn();
  }
  if (!body.empty() && !request.raw_query.empty()) {
    write_error(in_two_places(), {}, request_id, true, response);
    co_return SignedIn();
  }
  const FederatedTools tools{.store = identities_,
                             .around = around(),
                             .keys = sign_in_->keys,
                             .directory = sign_in_->directory ? &sign_in_->directory->settings() : nullptr,
                             .authority = sign_in_->authority};
  const bool in_query = body.empty();
  auto work = [&]() -> Result<bool> {
    const FederatedRequest call{.caller = request.call,
                                .form = in_query ? std::string_view(request.raw_query) : std::string_view(body),
                                .in_query = in_query,
                                .last = asking.last,
                                .person = asking.person ? &*asking.person : nullptr,
                                .certificates = asking.certificates ? &*asking.certificates : nullptr};
    answer_federated(tools, call, response, asking.reply);
    return true;
  };
  auto done = co_await sign_in_->pool.run("sign-in", work);
  if (done && asking.reply.asks()) {
    const auto asked = co_await ask_first(asking);
    if (asked) {
      done = co_await sign_in_->pool.run("sign-in", work);
    } else {
      done = std::unexpected(asked.error());
    }
  }
  if (!done) write_refusal(busy(), request_id, response);
  sign_in::sign_ins_counter(asking.reply.by, asking.reply.who.principal != nullptr).add();
  co_return std::move(asking.reply.who);
}

Task<auth::PrincipalPtr> Service::serve_query(const s3::Request& request, const auth::AccessKey& key,
                                              const std::string& body, s3::Response& response) {
  if (has_parameters_of_a_call(request.raw_query)) {
    write_error(in_two_places(), {}, request.call.request_id, false, response);
    co_return nullptr;
  }
  const bool is_root = auth::is_unlimited_root(key.principal.get(), &key);
  const auto turn = is_root ? nullptr : calls_.try_hold(key.principal->account->id);
  if (!is_root && turn == nullptr) {
    const Error too_many{Errc::slow_down, 0, "iam: calls of this account"};
    write_error(too_many, {}, request.call.request_id, false, response);
    co_return nullptr;
  }
  const auto form = Parameters::parse(body);
  auto work = [&]() -> Result<auth::PrincipalPtr> {
    return answer_query(identities_, around(), request.call, key, form, response);
  };
  auto assumed = co_await (only_reads(form) ? reading_ : pool_).run("iam", std::move(work));
  if (assumed) co_return std::move(*assumed);
  write_error(assumed.error(), {}, request.call.request_id, false, response);
  co_return nullptr;
}

Task<Result<std::set<std::string>>> Service::bucket_owners() {
  VB_CO_ASSIGN(const auto buckets, co_await buckets_.buckets());
  std::set<std::string> owners;
  for (const auto& bucket : buckets) owners.insert(bucket.owner);
  co_return owners;
}

// A bucket whose creation was authorized before its owner was marked may have come after the first list. Its creation
// has ended before this list, which then shows the bucket, and the account stays; or it ends later, finds that its
// owner is being removed, and removes the bucket (s3/buckets/bucket.cc). The account is marked and not erased
// meanwhile, so that it cannot be lost: its names and keys stay taken, and a server that dies here leaves it as it
// was. In order: a full pool would leave the account marked.
Task<void> Service::end_removal(auth::AccountEntryPtr marked, s3::Response& response) {
  const auto owners = co_await bucket_owners();
  auto work = [&]() -> Result<bool> {
    iam::end_removal(identities_, marked, owners, response);
    return true;
  };
  const auto done = co_await pool_.run_in_order("admin", std::move(work));
  if (done) co_return;
  tell_removal_is_open(marked->name, done.error());
  write_admin_error(done.error(), {}, response);
}

Task<void> Service::tell_ownerless_buckets() {
  constexpr size_t told_max = 10;
  const auto buckets = co_await buckets_.buckets();
  if (!buckets) {
    log::error("iam: whether every bucket's owner exists cannot be looked up: {}", describe(buckets.error()));
    co_return;
  }
  // After the list: an account that came since then is there.
  const auto accounts = identities_.accounts();
  std::set<std::string_view> owners;
  for (const auto& [id, entry] : *accounts) owners.insert(entry->account->canonical_id);
  size_t found = 0;
  for (const auto& bucket : *buckets) {
    if (owners.contains(bucket.owner) || ++found > told_max) continue;
    log::error("bucket {} is of an account that does not exist: {}", bucket.name, log::printable(bucket.owner));
  }
  if (found > told_max) log::error("{} more buckets are of accounts that do not exist", found - told_max);
}

Task<void> Service::serve_admin(const s3::Request& request, const auth::AccessKey& key, const std::string& body,
                                s3::Response& response) {
  const std::string name(request.raw_path.substr(admin_prefix.size()));
  if (const auto right = operator_ == nullptr ? std::string_view() : operator_->right_of(name); !right.empty()) {
    const auto allowed = may_operate(request.call, key, right, around());
    if (allowed && request.method == "POST") {
      co_await answer_operator(*operator_, name, key.principal->arn, body, response);
    } else {
      const Error wrong_method{Errc::method_not_allowed, 0, "iam: admin"};
      write_admin_error(allowed ? wrong_method : allowed.error(), {}, response);
    }
    co_return;
  }
  if (operator_ != nullptr && name == "rights" && request.method == "POST") {
    answer_rights(*operator_, request.call, key, around(), response);
    co_return;
  }
  // Temporary credentials must not be able to create permanent ones.
  if (!auth::is_unlimited_root(key.principal.get(), &key) || key.expires_s != 0) {
    write_admin_error({Errc::access_denied, 0, "Only the server's own root key may administer it."}, {}, response);
    co_return;
  }
  if (request.method != "POST") {
    write_admin_error({Errc::method_not_allowed, 0, "iam: admin"}, {}, response);
    co_return;
  }
  if (is_about_stored(name, body)) {
    co_await answer_stored(identities_, buckets_, quota_set_, name, body, response);
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
    auto now = co_await bucket_owners();
    if (!now) {
      write_admin_error(now.error(), {}, response);
      co_return;
    }
    owners = std::move(*now);
  }
  auto work = [&]() -> Result<auth::AccountEntryPtr> {
    return answer_admin(identities_, clock_, name, body, owners, response);
  };
  auto marked = co_await pool_.run("admin", std::move(work));
  if (!marked) {
    write_admin_error(marked.error(), {}, response);
  } else if (*marked != nullptr) {
    co_await end_removal(std::move(*marked), response);
  }
}

}  // namespace verbena::iam
