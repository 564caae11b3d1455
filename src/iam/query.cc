#include "iam/query.h"

#include "iam/actions.h"
#include "iam/authorize.h"
#include "iam/subjects.h"
#include "s3/errors.h"

namespace verbena::iam {
namespace {

constexpr std::string_view iam_version = "2010-05-08";
constexpr std::string_view iam_namespace = "xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"";

struct Reply {
  std::string message;  // of an error
  bool sts = false;
};

Result<const Action*> find_action(const Parameters& parameters, Reply& reply) {
  const std::string_view name = parameters.get_or_empty("Action"), version = parameters.get_or_empty("Version");
  reply.sts = version == sts_version;
  if (name.empty()) return fail(Errc::validation_error, "The parameter Action is missing.");
  if (version != iam_version && version != sts_version) {
    return fail(Errc::validation_error, "The parameter Version must be 2010-05-08 (IAM) or 2011-06-15 (STS).");
  }
  const Action* action = reply.sts ? find_sts_action(name) : find_iam_action(name);
  if (action == nullptr) {
    reply.message = "Could not find operation " + shown(name) + " for version " + std::string(version);
    return fail(Errc::invalid_action, "iam");
  }
  // Unknown parameters are refused: they may be limits (a permissions boundary, a condition).
  if (auto fault = parameters.find_fault(action->parameters)) {
    reply.message = std::move(*fault);
    return fail(Errc::validation_error, "iam");
  }
  return action;
}

Result<void> check_target(const Call& call) {
  const Target target = call.action.target;
  const bool wanted = target == Target::user || target == Target::group || target == Target::role;
  if (!wanted || !call.target_name().empty()) return {};
  return call.refuse(Errc::validation_error, "The request does not say which user, group or role.");
}

Result<auth::PrincipalPtr> serve(auth::IdentityStore& store, const Surroundings& around, const s3::Call& caller,
                                 const auth::AccessKey& key, const Result<Parameters>& form, Reply& reply,
                                 s3::Response& response) {
  if (!form) return std::unexpected(form.error());
  const Parameters& parameters = *form;
  VB_ASSIGN(const Action* action, find_action(parameters, reply));
  const std::string name(action->name);
  s3::XmlWriter xml(name + "Response", reply.sts ? sts_namespace : iam_namespace);
  xml.open(name + "Result");
  Call call{.store = store,
            .around = around,
            .caller = caller,
            .key = key,
            .parameters = parameters,
            .action = *action,
            .account = store.account(key.principal->account->id),
            .xml = xml,
            .message = reply.message};
  if (call.account == nullptr) return fail(Errc::invalid_client_token_id, "iam: the account is gone");
  VB_TRY(check_target(call));
  VB_TRY(read_tags(call));
  if (!reply.sts) VB_TRY(authorize_iam(call));
  VB_TRY(action->serve(call));
  xml.close();
  write_metadata(xml, caller.request_id);
  response.body = xml.finish();
  return std::move(call.assumed);
}

// IAM has codes of its own for some errors that S3 names differently.
Errc iam_code(Errc code) {
  switch (code) {
    case Errc::invalid_access_key_id:
    case Errc::invalid_token:
      return Errc::invalid_client_token_id;
    case Errc::invalid_argument:
    case Errc::invalid_request:
    case Errc::invalid_uri:
      return Errc::validation_error;
    default:
      return code;
  }
}

}  // namespace

void write_error(const Error& error, std::string_view message, std::string_view request_id, bool sts,
                 s3::Response& response) {
  Error shown = error;
  shown.code = iam_code(error.code);
  const s3::ErrorForm form = s3::error_form(shown.code);
  write_error_form(form.code, form.status, message.empty() ? s3::error_message(shown) : message, request_id, sts,
                   response);
}

void write_error_form(std::string_view code, int status, std::string_view message, std::string_view request_id,
                      bool sts, s3::Response& response) {
  response = {};
  response.status = status;
  response.error_code = code;
  response.headers.emplace_back("content-type", "text/xml");
  response.headers.emplace_back("x-amzn-requestid", request_id);
  s3::XmlWriter xml("ErrorResponse", sts ? sts_namespace : iam_namespace);
  xml.open("Error");
  xml.element("Type", status >= 500 ? "Receiver" : "Sender");
  xml.element("Code", code);
  xml.element("Message", message);
  xml.close();
  xml.element("RequestId", request_id);
  response.body = xml.finish();
}

bool only_reads(const Result<Parameters>& form) {
  if (!form) return true;  // it will be refused
  const std::string_view action = form->get_or_empty("Action");
  return action.starts_with("Get") || action.starts_with("List") || find_sts_action(action) != nullptr;
}

auth::PrincipalPtr answer_query(auth::IdentityStore& store, const Surroundings& around, const s3::Call& caller,
                                const auth::AccessKey& key, const Result<Parameters>& form, s3::Response& response) {
  Reply reply;
  auto served = serve(store, around, caller, key, form, reply, response);
  if (!served) {
    write_error(served.error(), reply.message, caller.request_id, reply.sts, response);
    return nullptr;
  }
  add_answer_headers(caller.request_id, response);
  return std::move(*served);
}

void write_metadata(s3::XmlWriter& xml, std::string_view request_id) {
  xml.open("ResponseMetadata");
  xml.element("RequestId", request_id);
  xml.close();
}

void add_answer_headers(std::string_view request_id, s3::Response& response) {
  response.headers.emplace_back("content-type", "text/xml");
  response.headers.emplace_back("cache-control", "no-store");
  response.headers.emplace_back("x-amzn-requestid", request_id);
}

}  // namespace verbena::iam
