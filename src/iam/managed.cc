// Managed policies and their versions.
#include <algorithm>
#include <functional>

#include "auth/identifiers.h"
#include "base/decimal.h"
#include "iam/actions.h"
#include "iam/subjects.h"

namespace verbena::iam {
namespace {

using auth::AccountEntry;
using auth::ManagedPolicy;
using auth::PolicyDocument;

size_t attachments(const AccountEntry& account, const std::string& arn) {
  const auto among = [&](const auto& items) {
    return std::ranges::count_if(items,
                                 [&](const auto& item) { return item.second.policy_set.attached.contains(arn); });
  };
  return static_cast<size_t>(among(account.users) + among(account.groups) + among(account.roles));
}

void write_policy(Call& call, const ManagedPolicy& policy, const std::string& arn) {
  s3::XmlWriter& xml = call.xml;
  xml.element("PolicyName", policy.name);
  xml.element("PolicyId", policy.id);
  xml.element("Arn", arn);
  xml.element("Path", policy.path);
  xml.element("DefaultVersionId", "v" + std::to_string(policy.version));
  xml.element("AttachmentCount", attachments(*call.account, arn));
  xml.element("PermissionsBoundaryUsageCount", 0);
  xml.element("IsAttachable", true);
  if (!policy.description.empty()) xml.element("Description", policy.description);
  write_date(xml, "CreateDate", policy.created_s);
  int64_t updated_s = std::max(policy.created_s, policy.version_created_s);
  for (const auto& [number, other] : policy.others) updated_s = std::max(updated_s, other.created_s);
  write_date(xml, "UpdateDate", updated_s);
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

// All of a policy's versions, the newest first.
struct Listed {
  int number = 0;
  bool is_default = false;
  const PolicyDocument* document = nullptr;
  int64_t created_s = 0;
};
std::vector<Listed> versions_of(const ManagedPolicy& policy) {
  std::vector<Listed> all = {{policy.version, true, &policy.document, policy.version_created_s}};
  for (const auto& [number, other] : policy.others) all.push_back({number, false, &other.document, other.created_s});
  std::ranges::sort(all, std::greater<>(), &Listed::number);
  return all;
}

void write_version(Call& call, const Listed& version, bool document) {
  if (document) call.xml.element("Document", auth::uri_encode(version.document->text, false));
  call.xml.element("VersionId", "v" + std::to_string(version.number));
  call.xml.element("IsDefaultVersion", version.is_default);
  write_date(call.xml, "CreateDate", version.created_s);
}

std::unexpected<Error> no_such_version(const Call& call) {
  return call.refuse(Errc::no_such_entity, "Policy " + std::string(call.get("PolicyArn")) + " version " +
                                               std::string(call.get("VersionId")) +
                                               " does not exist or is not attachable.");
}

// "v3" -> 3; 0 for any other text.
int read_version(const Call& call) {
  const std::string_view text = call.get("VersionId");
  const auto number = text.starts_with('v') ? parse_decimal(text.substr(1)) : std::nullopt;
  return number && *number <= 1'000'000'000 ? static_cast<int>(*number) : 0;
}

void make_default(ManagedPolicy& policy, int number) {
  auto node = policy.others.extract(number);
  policy.others.emplace(policy.version, auth::PolicyVersion{std::move(policy.document), policy.version_created_s});
  policy.version = number;
  policy.document = std::move(node.mapped().document);
  policy.version_created_s = node.mapped().created_s;
}

}  // namespace

Result<const ManagedPolicy*> find_own_policy(const Call& call, const AccountEntry& account) {
  const std::string arn(call.get("PolicyArn"));
  if (arn.starts_with("arn:aws:iam::aws:")) {
    return call.refuse(Errc::access_denied, "A policy of AWS's own cannot be changed.");
  }
  const ManagedPolicy* policy = find_policy(account, arn);
  if (policy == nullptr) return call.refuse(Errc::no_such_entity, "Policy " + arn + " was not found.");
  return policy;
}

Result<ManagedPolicy*> find_own_policy(const Call& call, AccountEntry& account) {
  VB_ASSIGN(const ManagedPolicy* found, find_own_policy(call, std::as_const(account)));
  return &account.policies.find(found->name)->second;
}

Result<void> create_policy(Call& call) {
  ManagedPolicy policy;
  VB_ASSIGN(policy.name, call.name("PolicyName", policy_name_max));
  VB_ASSIGN(policy.path, call.path());
  VB_ASSIGN(policy.description, call.description());
  VB_ASSIGN(policy.document,
            call.document("PolicyDocument", auth::PolicyKind::identity, auth::managed_policy_bytes_max));
  VB_ASSIGN(policy.tags, authorize_new_tags(call, "iam:TagPolicy"));
  policy.id = auth::make_id("ANPA");
  policy.created_s = policy.version_created_s = call.now_s();
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
  write_tags(call.xml, policy.tags);
  call.xml.close();
  return {};
}

Result<void> get_policy(Call& call) {
  VB_ASSIGN(const ManagedPolicy* policy, find_asked(call));
  call.xml.open("Policy");
  write_policy(call, *policy, std::string(call.get("PolicyArn")));
  write_tags(call.xml, policy->tags);
  call.xml.close();
  return {};
}

Result<void> get_policy_version(Call& call) {
  VB_ASSIGN(const ManagedPolicy* policy, find_asked(call));
  const int number = read_version(call);
  for (const Listed& version : versions_of(*policy)) {
    if (version.number != number) continue;
    call.xml.open("PolicyVersion");
    write_version(call, version, true);
    call.xml.close();
    return {};
  }
  return no_such_version(call);
}

Result<void> create_policy_version(Call& call) {
  auth::PolicyVersion version;
  VB_ASSIGN(version.document,
            call.document("PolicyDocument", auth::PolicyKind::identity, auth::managed_policy_bytes_max));
  version.created_s = call.now_s();
  const bool set_as_default = call.get("SetAsDefault") == "true";
  int number = 0;
  VB_TRY(call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(ManagedPolicy * policy, find_own_policy(call, account));
    if (policy->others.size() + 1 >= auth::policy_versions_max) {
      return call.refuse(Errc::limit_exceeded,
                         "A managed policy can have up to 5 versions. Before you create a new version, you must delete "
                         "an existing version.");
    }
    number = ++policy->versions_made;
    policy->others.emplace(number, version);
    if (set_as_default) make_default(*policy, number);
    return {};
  }));
  call.xml.open("PolicyVersion");
  write_version(call, {number, set_as_default, &version.document, version.created_s}, false);
  call.xml.close();
  return {};
}

Result<void> set_default_policy_version(Call& call) {
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(ManagedPolicy * policy, find_own_policy(call, account));
    const int number = read_version(call);
    if (number == policy->version) return {};
    if (!policy->others.contains(number)) return no_such_version(call);
    make_default(*policy, number);
    return {};
  });
}

Result<void> delete_policy_version(Call& call) {
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(ManagedPolicy * policy, find_own_policy(call, account));
    const int number = read_version(call);
    if (number == policy->version) {
      return call.refuse(Errc::delete_conflict, "Cannot delete the default version of a policy.");
    }
    if (policy->others.erase(number) == 0) return no_such_version(call);
    return {};
  });
}

Result<void> list_policy_versions(Call& call) {
  VB_ASSIGN(const ManagedPolicy* policy, find_asked(call));
  call.xml.open("Versions");
  for (const Listed& version : versions_of(*policy)) {
    call.xml.open("member");
    write_version(call, version, false);
    call.xml.close();
  }
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
    VB_ASSIGN(const ManagedPolicy* policy, find_own_policy(call, account));
    if (!policy->others.empty()) {
      return call.refuse(Errc::delete_conflict,
                         "This policy has more than one version. Before you delete a policy, you must delete the "
                         "policy's versions. The default version is deleted with the policy.");
    }
    if (attachments(account, arn) != 0) {
      return call.refuse(Errc::delete_conflict, "Cannot delete a policy attached to entities.");
    }
    account.policies.erase(name);
    return {};
  });
}

}  // namespace verbena::iam
