// AssumeRoleWithLDAPIdentity, as in MinIO: a role for users with a name and a password in the directory.
#include "base/client_counts.h"
#include "iam/federated_call.h"

namespace verbena::iam {
namespace {

using Why = sign_in::Refusal::Kind;

// Refuses passwords over connections that could be read on the network.
Result<void> check_transport(const FederatedCall& federated) {
  const s3::Call& caller = federated.request.caller;
  if (caller.secure || is_loopback_client(client_of(caller.peer_address))) return {};
  return federated.refuse(Why::denied, "Passwords are accepted over TLS only.");
}

}  // namespace

Result<void> assume_role_with_ldap_identity(FederatedCall& federated) {
  const Call& call = federated.call;
  const sign_in::DirectorySettings& directory = *federated.tools.directory;
  VB_TRY(check_transport(federated));
  const std::string_view arn = call.parameters.get("RoleArn").value_or(directory.role);
  VB_ASSIGN(const RoleOfArn wanted, find_role(call, arn));
  if (federated.request.person == nullptr) {
    const std::string_view password = call.get("LDAPPassword");
    federated.reply.question.emplace(std::string(call.get("LDAPUsername")), Secret(as_bytes(password)));
    return fail(Errc::would_block, "iam: the directory's answer");
  }
  if (!*federated.request.person) return federated.refuse(federated.request.person->error());
  const sign_in::Person& person = **federated.request.person;
  Vouched vouched{.wanted = wanted, .by = voucher_arn(wanted, "ldap", directory.name), .by_tag = directory.tag};
  vouched.attributes.claims["ldap:user"] = {person.name};
  vouched.attributes.claims["ldap:dn"] = {person.dn};
  vouched.claim = [&](std::string_view key, auth::FactValues& values) {
    if (key == "ldap:groups") values = person.groups;
    if (key == "ldap:user") values.push_back(person.name);
    if (key == "ldap:dn") values.push_back(person.dn);
    return !values.empty();
  };
  VB_TRY(authorize_vouched(federated, vouched, "sts:AssumeRoleWithLDAPIdentity"));
  VB_ASSIGN(const int64_t duration, session_duration(call, wanted.role->session_max_s));
  VB_ASSIGN(auth::SessionContents contents, role_contents(call, wanted, person.name, duration));
  VB_ASSIGN(const auth::Credentials made, make_vouched_session(federated, vouched, contents));
  write_role_user(call.xml, wanted, person.name);
  write_credentials(call.xml, made, contents.expires_s);
  return {};
}

}  // namespace verbena::iam
