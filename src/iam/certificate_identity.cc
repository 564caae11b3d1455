// AssumeRoleWithCertificate, as in MinIO: a role for a machine with a certificate of the configured authority.
#include "iam/federated_call.h"

namespace verbena::iam {
namespace {

// Clients without roles name none: the role then has the machine's name, in the root account.
Result<RoleOfArn> role_of_machine(const Call& call, const sign_in::Machine& machine) {
  if (const auto arn = call.parameters.get("RoleArn")) return find_role(call, *arn);
  RoleOfArn out;
  out.account = call.store.account(auth::root_account_id);
  const auto found = out.account->roles.find(machine.name);
  if (found != out.account->roles.end()) out.role = &found->second;
  return out;
}

}  // namespace

Result<void> assume_role_with_certificate(FederatedCall& federated) {
  const Call& call = federated.call;
  sign_in::ClientAuthority& authority = *federated.tools.authority;
  if (federated.request.certificates == nullptr) {
    federated.reply.certificates = true;
    return fail(Errc::would_block, "iam: the client's certificates");
  }
  const auto machine = authority.check(*federated.request.certificates, call.now_s());
  if (!machine) return federated.refuse(machine.error());
  VB_ASSIGN(const RoleOfArn wanted, role_of_machine(call, *machine));
  Vouched vouched{
      .wanted = wanted, .by = voucher_arn(wanted, "certificate", authority.name()), .by_tag = machine->anchor};
  vouched.attributes.claims["certificate:subject-cn"] = {machine->name};
  vouched.attributes.claims["certificate:serial"] = {machine->serial};
  vouched.claim = [&](std::string_view key, auth::FactValues& values) {
    if (key == "certificate:subject-cn") values.push_back(machine->name);
    if (key == "certificate:serial") values.push_back(machine->serial);
    if (key == "certificate:issuer" && !machine->issuer.empty()) values.push_back(machine->issuer);
    if (key == "certificate:sha256") values.push_back(machine->sha256);
    if (key == "certificate:san-dns") values = machine->dns;
    if (key == "certificate:san-uri") values = machine->uris;
    return !values.empty();
  };
  VB_TRY(authorize_vouched(federated, vouched, "sts:AssumeRoleWithCertificate"));
  VB_ASSIGN(const int64_t duration, session_duration(call, wanted.role->session_max_s));
  VB_ASSIGN(auth::SessionContents contents, role_contents(call, wanted, machine->name, duration));
  contents.not_after_s = machine->expires_s;
  VB_ASSIGN(const auth::Credentials made, make_vouched_session(federated, vouched, contents));
  write_role_user(call.xml, wanted, machine->name);
  write_credentials(call.xml, made, contents.expires_s);
  return {};
}

}  // namespace verbena::iam
