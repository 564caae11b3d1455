// Managed policies. Each has one version.
#include <algorithm>

#include "auth/identifiers.h"
#include "iam/actions.h"
#include "iam/subjects.h"

namespace verbena::iam {
namespace {

using auth::AccountEntry;
using auth::ManagedPolicy;

size_t attachments(const AccountEntry& account, const std::string& arn) {
  const auto among = [&](const auto& items) {
    return std::ranges::count_if(items, [&](const auto& item) { return item.second.grants.attached.contains(arn); });
  };
  return static_cast<size_t>(among(account.users) + among(account.groups) + among(account.roles));
}

void write_policy(Call& call, const ManagedPolicy& policy, const std::string& arn) {
  s3::XmlWriter& xml = call.xml;
  xml.element("PolicyName", policy.name);
  xml.element("PolicyId", policy.id);
  xml.element("Arn", arn);
  xml.element("Path", policy.path);
  xml.element("DefaultVersionId", "v1");
  xml.element("AttachmentCount", attachments(*call.account, arn));
  xml.element("PermissionsBoundaryUsageCount", 0);
  xml.element("IsAttachable", true);
  if (!policy.description.empty()) xml.element("Description", policy.description);
  write_date(xml, "CreateDate", policy.created_s);
  write_date(xml, "UpdateDate", policy.created_s);
}

Result<const ManagedPolicy*> find_asked(const Call& call) {
  const std::string_view arn = call.get("PolicyArn");
  if (!arn.starts_with("arn:aws:iam::")) return call.refuse(Errc::validation_error, "ARN is not valid.");
  const ManagedPolicy* policy = find_policy(*call.account, arn);
  if (policy == nullptr) {
    return call.refuse(Errc::no_such_entity, "Policy " + std::string(arn) + " was not found.");
  }
  return policy;
}

void write_version(Call& call, const ManagedPolicy& policy, bool document) {
  if (document) call.xml.element("Document", auth::uri_encode(policy.document.text, false));
  call.xml.element("VersionId", "v1");
  call.xml.element("IsDefaultVersion", true);
  write_date(call.xml, "CreateDate", policy.created_s);
}

}  // namespace

Result<void> create_policy(Call& call) {
  ManagedPolicy policy;
  VB_ASSIGN(policy.name, call.name("PolicyName", policy_name_max));
  VB_ASSIGN(policy.path, call.path());
  VB_ASSIGN(policy.description, call.description());
  VB_ASSIGN(policy.document,
            call.document("PolicyDocument", auth::PolicyKind::identity, auth::managed_policy_bytes_max));
  policy.id = auth::make_id("ANPA");
  policy.created_s = call.now_s();
  VB_TRY(call.change([&](AccountEntry& account) -> Result<void> {
    if (account.policies.contains(policy.name)) {
      return call.refuse(Errc::entity_already_exists, "A policy called " + policy.name + " already exists.");
    }
    if (account.policies.size() >= auth::managed_policies_max) {
      return call.too_many("PoliciesPerAccount", auth::managed_policies_max);
    }
    account.policies.emplace(policy.name, policy);
    return {};
  }));
  call.xml.open("Policy");
  write_policy(call, policy, policy_arn(*call.account, policy));
  call.xml.close();
  return {};
}

Result<void> get_policy(Call& call) {
  VB_ASSIGN(const ManagedPolicy* policy, find_asked(call));
  call.xml.open("Policy");
  write_policy(call, *policy, std::string(call.get("PolicyArn")));
  call.xml.close();
  return {};
}

Result<void> get_policy_version(Call& call) {
  VB_ASSIGN(const ManagedPolicy* policy, find_asked(call));
  if (call.get("VersionId") != "v1") {
    return call.refuse(Errc::no_such_entity,
                       "Policy version " + std::string(call.get("VersionId")) + " was not found.");
  }
  call.xml.open("PolicyVersion");
  write_version(call, *policy, true);
  call.xml.close();
  return {};
}

Result<void> list_policy_versions(Call& call) {
  VB_ASSIGN(const ManagedPolicy* policy, find_asked(call));
  call.xml.open("Versions");
  call.xml.open("member");
  write_version(call, *policy, false);
  call.xml.close();
  call.xml.close();
  call.xml.element("IsTruncated", false);
  return {};
}

Result<void> list_policies(Call& call) {
  const std::string_view scope = call.get("Scope"), prefix = call.get("PathPrefix");
  if (!scope.empty() && scope != "All" && scope != "AWS" && scope != "Local") {
    return call.refuse(Errc::validation_error, "Scope must be All, AWS or Local.");
  }
  const bool only_attached = call.get("OnlyAttached") == "true";
  std::vector<std::pair<std::string, const ManagedPolicy*>> all;  // by name, then ARN
  const auto collect = [&](const auto& policies, bool of_aws) {
    for (const auto& [name, policy] : policies) {
      const std::string arn = of_aws ? auth::arn_of("aws", "policy", "/", name) : policy_arn(*call.account, policy);
      if (only_attached && attachments(*call.account, arn) == 0) continue;
      if (policy.path.starts_with(prefix)) all.emplace_back(arn, &policy);
    }
  };
  if (scope != "Local") collect(auth::aws_managed_policies(), true);
  if (scope != "AWS") collect(call.account->policies, false);
  std::ranges::sort(all, auth::NameOrder(), [](const auto& item) { return item.first; });
  return write_page(
      call, "Policies", all, [](const auto& item) -> const std::string& { return item.first; },
      [](const auto&) { return true; },
      [&](const auto& item) {
        call.xml.open("member");
        write_policy(call, *item.second, item.first);
        call.xml.close();
      });
}

Result<void> delete_policy(Call& call) {
  const std::string arn(call.get("PolicyArn"));
  VB_ASSIGN(const ManagedPolicy* asked, find_asked(call));
  if (arn.starts_with("arn:aws:iam::aws:")) {
    return call.refuse(Errc::access_denied, "A policy of AWS's own cannot be deleted.");
  }
  const std::string name = asked->name;
  return call.change([&](AccountEntry& account) -> Result<void> {
    if (find_policy(account, arn) == nullptr) {
      return call.refuse(Errc::no_such_entity, "Policy " + arn + " was not found.");
    }
    if (attachments(account, arn) != 0) {
      return call.refuse(Errc::delete_conflict, "Cannot delete a policy attached to entities.");
    }
    account.policies.erase(name);
    return {};
  });
}

}  // namespace verbena::iam
