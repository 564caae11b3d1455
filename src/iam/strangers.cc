#include "iam/strangers.h"

#include "iam/query.h"
#include "iam/web_identity.h"
#include "s3/errors.h"

namespace verbena::iam {
namespace {

constexpr Action web_identity_action{"AssumeRoleWithWebIdentity", Target::none,
                                     " RoleArn RoleSessionName WebIdentityToken DurationSeconds Policy PolicyArns.* ",
                                     nullptr};

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

// The call, once it is known to be one that needs no signature.
Result<const Action*> find_stranger_action(const Parameters& parameters, std::string& message) {
  const bool sts = parameters.get_or_empty("Version") == sts_version;
  if (!sts || parameters.get_or_empty("Action") != web_identity_action.name) {
    return fail(Errc::missing_authentication, "iam: a call without a signature");
  }
  const std::string known = " Action Version" + std::string(web_identity_action.parameters);
  if (const auto stranger = parameters.stranger(known)) {
    message = "The parameter " + shown(*stranger) + " is not served here.";
    return fail(Errc::validation_error, "iam");
  }
  return &web_identity_action;
}

// Whoever calls without a signature has no rights at all.
const auth::AccessKey& nobodys_key() {
  static const auth::AccessKey key = [] {
    auth::Principal nobody;
    nobody.kind = auth::Principal::Kind::federated;
    nobody.account = auth::root_account();
    return auth::AccessKey{{}, std::make_shared<const auth::Principal>(std::move(nobody)), 0};
  }();
  return key;
}

struct Failure {
  std::string message;
  std::optional<sign_in::Refusal> refusal{};
};

Result<void> serve_stranger_form(const StrangerTools& tools, const s3::Caller& caller, std::string_view form, bool last,
                                 s3::Response& response, StrangerReply& reply, Failure& failure) {
  VB_ASSIGN(const Parameters parameters, Parameters::parse(form));
  VB_ASSIGN(const Action* action, find_stranger_action(parameters, failure.message));
  const std::string name(action->name);
  s3::XmlWriter xml(name + "Response", sts_namespace);
  xml.open(name + "Result");
  Call call{.store = tools.store,
            .clock = tools.clock,
            .caller = caller,
            .key = nobodys_key(),
            .parameters = parameters,
            .action = *action,
            .account = nullptr,
            .xml = xml,
            .message = failure.message};
  WebIdentityCall web{call, tools.keys, last, reply, failure.refusal};
  VB_TRY(assume_role_with_web_identity(web));
  xml.close();
  write_metadata(xml, caller.request_id);
  response.body = xml.finish();
  return {};
}

}  // namespace

void write_refusal(const sign_in::Refusal& refusal, std::string_view request_id, s3::Response& response) {
  const RefusalForm form = form_of(refusal.kind);
  write_error_form(form.code, form.status, refusal.message, request_id, true, response);
}

void answer_stranger(const StrangerTools& tools, const s3::Caller& caller, std::string_view form, bool last,
                     s3::Response& response, StrangerReply& reply) {
  Failure failure;
  const auto served = serve_stranger_form(tools, caller, form, last, response, reply, failure);
  if (reply.wanted) return;
  if (failure.refusal) return write_refusal(*failure.refusal, caller.request_id, response);
  if (!served) return write_error(served.error(), failure.message, caller.request_id, true, response);
  add_answer_headers(caller.request_id, response);
}

}  // namespace verbena::iam
