// IAM and STS as AWS's query APIs, and the admin API: one request in, one answer out.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "auth/identity_store.h"
#include "base/blocking.h"
#include "base/client_counts.h"
#include "base/clock.h"
#include "iam/federation.h"
#include "iam/operate.h"
#include "iam/stored.h"
#include "s3_http/request.h"
#include "sign_in/provider_keys.h"
#include "store/store.h"

namespace verbena::iam {

// Largest body of any of these requests, and of an unsigned one: the longest token, with session policies.
inline constexpr size_t body_bytes_max = 64 * 1024;
inline constexpr size_t federated_body_bytes_max = 32 * 1024;

// Calls of one account at a time; more are refused with slow_down, and its SDK tries again.
inline constexpr size_t calls_of_account_max = 12;

enum class Api : uint8_t {
  none,   // a request of S3
  query,  // IAM and STS: a form posted to "/"
  admin,  // POST /-/admin/CALL, a JSON object
};
Api api_of(std::string_view method, std::string_view path, std::string_view content_type);
// Whether the call is in the URL, as clients send AssumeRoleWithCertificate.
bool is_query_in_url(std::string_view method, std::string_view path, std::string_view query);

// The name of a call: "iam:CreateUser", "admin:user-add". It is the only part that is logged, because the rest may be
// secret. `form`: of a query; its body, or the query in its URL.
std::string operation_of(Api api, std::string_view path, std::string_view form);

// Tools for signing in without a key. All outlive the service; null where that kind is disabled.
struct SignInTools {
  BlockingPool& pool;
  sign_in::ProviderKeys* keys = nullptr;
  sign_in::Directory* directory = nullptr;
  BlockingPool* directory_pool = nullptr;  // its threads only wait for the directory
  sign_in::ClientAuthority* authority = nullptr;
};

class Service {
 public:
  // All outlive the service. `buckets` is used to check whether an account still owns one. `quota_set`: called
  // with the store's answer to a change of a bucket's quota, before it is acknowledged. `sign_in`: null if no sign-in
  // without a key is configured.
  Service(
      auth::IdentityStore& identities, store::Store& buckets, BlockingPool& pool, const WallClock& clock,
      std::string region, QuotaSet quota_set = [](const std::string&, const Result<void>&) {},
      std::optional<SignInTools> sign_in = std::nullopt)
      : identities_(identities),
        buckets_(buckets),
        pool_(pool),
        clock_(clock),
        region_(std::move(region)),
        quota_set_(std::move(quota_set)),
        sign_in_(sign_in) {}

  // Sets the handler for calls about the running server. Before the first request; outlives the service.
  void set_operator(OperatorCalls* calls) { operator_ = calls; }

  // Serves a request whose signature was verified: `key` signed it. Never fails: every error becomes an answer. All
  // references outlive the task. The role's session whose credentials the answer has; null: none.
  Task<auth::PrincipalPtr> serve(Api api, const s3::Request& request, const auth::AccessKey& key,
                                 const std::string& body, s3::Response& response);
  // Whether sign-in without a key is possible: otherwise an unsigned call is refused unread.
  bool takes_federated() const;
  // Serves an unsigned query. Never fails, as serve(). `certificates`: the client's certificates; called once at most,
  // by calls that need them.
  using CertificatesOf = std::function<std::vector<std::string>()>;
  Task<SignedIn> serve_federated(const s3::Request& request, const std::string& body,
                                 const CertificatesOf& certificates, s3::Response& response);
  // For a start: logs buckets whose owner is no account any more, ten at most, and how many more there are.
  Task<void> tell_ownerless_buckets();
  // The answer to a call that was refused before it was served.
  static void refuse(Api api, const Error& error, std::string_view request_id, s3::Response& response);

 private:
  Task<auth::PrincipalPtr> serve_query(const s3::Request& request, const auth::AccessKey& key, const std::string& body,
                                       s3::Response& response);
  Task<void> serve_admin(const s3::Request& request, const auth::AccessKey& key, const std::string& body,
                         s3::Response& response);
  Task<Result<std::set<std::string>>> bucket_owners();
  Task<void> end_removal(auth::AccountEntryPtr marked, s3::Response& response);
  struct Asking;
  Surroundings around() const { return {clock_, region_}; }
  Task<Result<void>> ask_first(Asking& asking);
  Task<Result<void>> ask_directory(Asking& asking);
  auth::IdentityStore& identities_;
  store::Store& buckets_;
  BlockingPool& pool_;
  const WallClock& clock_;
  const std::string region_;  // of the server
  const QuotaSet quota_set_;
  OperatorCalls* operator_ = nullptr;
  const std::optional<SignInTools> sign_in_;
  // Calls that change nothing need no turn among the changes, which are made one after the other.
  static constexpr size_t reads_waiting_max = 256;
  BlockingPool reading_{1, reads_waiting_max};
  // Of an account in progress: the changes of one are not all that others wait for.
  ClientCounts calls_{{.each_max = calls_of_account_max}};
  ClientCounts federated_{{.each_max = 32, .clients_max = 4096}};    // calls in progress
  ClientCounts at_directory_{{.each_max = 4, .clients_max = 4096}};  // of them, those waiting for the directory
  mutable std::atomic<uint64_t> takes_federated_{0};                 // generation of the accounts << 1, and the answer
};

}  // namespace verbena::iam
