#include "iam/federation.h"

#include <algorithm>

#include "iam/federated_call.h"
#include "iam/query.h"
#include "s3/errors.h"

namespace verbena::iam {
namespace {

struct FederatedAction {
  Action action;
  Result<void> (*serve)(FederatedCall&);
  bool (*served)(const FederatedTools&);
  sign_in::By by;
  bool in_url = false;  // may be in the URL: it has no secrets
};

constexpr FederatedAction federated_actions[] = {
    {{"AssumeRoleWithWebIdentity", Target::none,
      " RoleArn RoleSessionName WebIdentityToken DurationSeconds Policy PolicyArns.*.arn ", nullptr},
     assume_role_with_web_identity,
     [](const FederatedTools& tools) { return tools.keys != nullptr; },
     sign_in::By::web_identity},
    {{"AssumeRoleWithLDAPIdentity", Target::none,
      " RoleArn LDAPUsername LDAPPassword DurationSeconds Policy PolicyArns.*.arn ", nullptr},
     assume_role_with_ldap_identity,
     [](const FederatedTools& tools) { return tools.directory != nullptr; },
     sign_in::By::ldap},
    {{"AssumeRoleWithCertificate", Target::none, " RoleArn DurationSeconds Policy PolicyArns.*.arn ", nullptr},
     assume_role_with_certificate,
     [](const FederatedTools& tools) { return tools.authority != nullptr; },
     sign_in::By::certificate,
     /*in_url=*/true},
};

struct RefusalForm {
  std::string_view code;
  int status;
};

RefusalForm form_of(sign_in::Refusal::Kind kind) {
  using Kind = sign_in::Refusal::Kind;
  switch (kind) {
    case Kind::invalid_token:
      return {"InvalidIdentityToken", 400};
    case Kind::expired_token:
      return {"ExpiredTokenException", 400};
    case Kind::rejected_claim:
      return {"IDPRejectedClaim", 403};
    case Kind::no_answer:
      return {"IDPCommunicationError", 400};
    case Kind::denied:
    case Kind::busy:
      break;
  }
  const s3::ErrorForm form = s3::error_form(kind == Kind::busy ? Errc::slow_down : Errc::access_denied);
  return {form.code, form.status};
}

// The call, if it needs no signature.
Result<const FederatedAction*> find_federated_action(const FederatedTools& tools, const Parameters& parameters,
                                                     bool in_query, std::string& message) {
  const bool sts = parameters.get_or_empty("Version") == sts_version;
  const auto* const found = std::ranges::find_if(
      federated_actions, [&](const auto& one) { return one.action.name == parameters.get_or_empty("Action"); });
  if (!sts || found == std::end(federated_actions) || !found->served(tools)) {
    return fail(Errc::missing_authentication, "iam: a call without a signature");
  }
  // URLs appear in logs of proxies.
  if (in_query && !found->in_url) {
    message = "Passwords and tokens must not be in a URL: send them as a form.";
    return fail(Errc::validation_error, "iam");
  }
  if (auto fault = parameters.find_fault(found->action.parameters)) {
    message = std::move(*fault);
    return fail(Errc::validation_error, "iam");
  }
  return found;
}

// The key of callers without one: no rights.
const auth::AccessKey& keyless_callers_key() {
  static const auth::AccessKey key = [] {
    auth::Principal principal;
    principal.kind = auth::Principal::Kind::federated;
    principal.account = auth::root_account();
    return auth::AccessKey{{}, std::make_shared<const auth::Principal>(std::move(principal)), 0};
  }();
  return key;
}

struct Failure {
  std::string message;
  std::optional<sign_in::Refusal> refusal{};
};

Result<void> serve_federated_form(const FederatedTools& tools, const FederatedRequest& request, s3::Response& response,
                                  FederatedReply& reply, Failure& failure) {
  VB_ASSIGN(const Parameters parameters, Parameters::parse(request.form));
  VB_ASSIGN(const FederatedAction* found, find_federated_action(tools, parameters, request.in_query, failure.message));
  reply.by = found->by;
  const std::string name(found->action.name);
  s3::XmlWriter xml(name + "Response", sts_namespace);
  xml.open(name + "Result");
  Call call{.store = tools.store,
            .around = tools.around,
            .caller = request.caller,
            .key = keyless_callers_key(),
            .parameters = parameters,
            .action = found->action,
            .account = nullptr,
            .xml = xml,
            .message = failure.message};
  FederatedCall federated{call, tools, request, reply, failure.refusal};
  VB_TRY(found->serve(federated));
  xml.close();
  write_metadata(xml, request.caller.request_id);
  response.body = xml.finish();
  return {};
}

}  // namespace

void write_refusal(const sign_in::Refusal& refusal, std::string_view request_id, s3::Response& response) {
  const RefusalForm form = form_of(refusal.kind);
  write_error_form(form.code, form.status, refusal.message, request_id, true, response);
}

void answer_federated(const FederatedTools& tools, const FederatedRequest& request, s3::Response& response,
                      FederatedReply& reply) {
  const std::string& request_id = request.caller.request_id;
  Failure failure;
  const auto served = serve_federated_form(tools, request, response, reply, failure);
  if (reply.asks()) return;
  if (failure.refusal) return write_refusal(*failure.refusal, request_id, response);
  if (!served) return write_error(served.error(), failure.message, request_id, true, response);
  add_answer_headers(request_id, response);
}

}  // namespace verbena::iam
